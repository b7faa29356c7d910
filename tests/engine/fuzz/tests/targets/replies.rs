//! Server replies: any answer, to any command, in any order.

use leasehold_fuzz::{Answering, World, steps};

use crate::RANDOM;

/// The engine does not panic. It grants nothing that no reply gave, keeps its holders apart, ends every call once with a
/// result or a typed error, and leaves nothing.
#[test]
fn replies() {
    bolero::check!(name = "replies").with_iterations(RANDOM).for_each(|input| {
        let first = steps(input).next().filter(|step| step.verb == "client");
        let mut world = World::new(first.map_or("", |step| step.rest));
        steps(input).for_each(|step| world.step(step));
        world.end(if input.len().is_multiple_of(2) { Answering::Server } else { Answering::Nobody });
    });
}
