//! The pages of `docs/` as documentation: `cargo test --doc` compiles their Rust code, and runs the snippets that need
//! no server.

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../../native/README.md")]
mod native {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/benchmarks.md")]
mod benchmarks {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/design.md")]
mod design {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/edge.md")]
mod edge {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/errors.md")]
mod errors {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/fencing.md")]
mod fencing {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/frameworks.md")]
mod frameworks {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guarantees.md")]
mod guarantees {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/interop.md")]
mod interop {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/kinds.md")]
mod kinds {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/metrics.md")]
mod metrics {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/migrating.md")]
mod migrating {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/operations.md")]
mod operations {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/options.md")]
mod options {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/recipes.md")]
mod recipes {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/servers.md")]
mod servers {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/shutting-down.md")]
mod shutting_down {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/testing.md")]
mod testing {}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/topologies.md")]
mod topologies {}
