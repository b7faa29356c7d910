//! Our clients together with real clients of other libraries, on one real server: `cargo xtask interop`.

mod mixed_fleet;
mod pair;
mod redisson;

type Tested = Result<(), Box<dyn std::error::Error>>;
