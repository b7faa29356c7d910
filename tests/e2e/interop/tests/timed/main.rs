//! How fairly our clients and those of other libraries share one lock. The first client to ask gets it, so the tests
//! need a quiet machine.

use std::time::Duration;

use leasehold_interop::Library;
use pair::{LONG, Pair};

#[allow(dead_code, reason = "the suite has more uses for it")]
#[path = "../suite/pair.rs"]
mod pair;

type Tested = Result<(), Box<dyn std::error::Error>>;

/// Four workers on each side count up to `goal`. Each side must get a quarter.
fn both_sides_get_a_fair_part(ours: Library, theirs: Library, goal: u64, pause: Duration) -> Tested {
    let [ours, theirs] = Pair::start([ours, theirs], "share", LONG)?.count(goal, 4, pause)?;
    assert!(ours >= goal / 4 && theirs >= goal / 4, "ours {ours}, theirs {theirs}");
    Ok(())
}

macro_rules! shared_with {
    ($($module:ident: $library:expr;)*) => {
        $(mod $module {
            use super::*;

            // The first client to ask after a release gets the lock, and all ask about equally often. So each side should
            // get half. A quarter allows for chance.
            #[test]
            fn both_sides_get_a_fair_part() -> Tested {
                super::both_sides_get_a_fair_part(Library::LeaseholdMixed, $library, 1_200, Duration::from_millis(40))
            }
        })*
    };
}

shared_with! {
    redsync: Library::Redsync;
    redis_py: Library::RedisPy;
    redlock: Library::Redlock;
    redis_semaphore: Library::RedisSemaphore;
}

mod redisson {
    use super::*;

    // Four owners in one client on each side. Our client gives the lock away after 32 turns and then pauses for a moment.
    // Redisson gives it to the first client that asks. On a quiet machine, about a third of the turns are ours.
    #[test]
    fn both_sides_get_a_fair_part() -> Tested {
        let (ours, theirs) = (Library::LeaseholdReentrant, Library::Redisson);
        super::both_sides_get_a_fair_part(ours, theirs, 10_000, Duration::ZERO)
    }
}
