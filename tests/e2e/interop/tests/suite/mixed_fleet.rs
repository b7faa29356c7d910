//! The mutex with `mixed_fleet`, together with libraries that know only `SET key token NX PX`.

use std::time::Duration;

use leasehold_interop::Library;

use crate::Tested;
use crate::pair::{LONG, PATIENCE, Pair};

fn pair(theirs: Library, test: &str, ttl: Duration) -> Result<Pair, leasehold_interop::Error> {
    Pair::start([Library::LeaseholdMixed, theirs], test, ttl)
}

fn each_side_excludes_the_other(theirs: Library) -> Tested {
    pair(theirs, "door", LONG)?.both_ways(|holder, other| {
        assert_eq!(holder.ask("acquire")?, "held");
        assert_eq!(other.ask("try")?, "busy");
        assert_eq!(holder.ask("release")?, "released");
        assert_eq!(other.ask("try")?, "held");
        assert_eq!(holder.ask("try")?, "busy");
        assert_eq!(other.ask("release")?, "released");
        Ok(())
    })
}

fn who_waits_follows_the_other_side_s_release(theirs: Library) -> Tested {
    pair(theirs, "queue", LONG)?.both_ways(|holder, waiter| {
        assert_eq!(holder.ask("acquire")?, "held");
        waiter.order("acquire")?;
        assert!(waiter.is_silent(Duration::from_millis(600))?, "it did not wait");
        holder.order("release")?;
        // The lease lasts longer than this, so only the release frees the lock.
        assert_eq!(waiter.reply(PATIENCE)?.text, "held");
        assert_eq!(holder.reply(PATIENCE)?.text, "released");
        assert_eq!(waiter.ask("release")?, "released");
        Ok(())
    })
}

fn a_killed_holder_delays_the_other_side_by_its_ttl(theirs: Library) -> Tested {
    const TTL: Duration = Duration::from_millis(1500);
    for our_death in [true, false] {
        let mut pair = pair(theirs, if our_death { "our-death" } else { "their-death" }, TTL)?;
        let Pair { ours, theirs, .. } = &mut pair;
        let (holder, waiter) = if our_death { (ours, theirs) } else { (theirs, ours) };
        let taken = holder.order("acquire")?;
        assert_eq!(holder.reply(PATIENCE)?.text, "held");
        holder.kill();
        waiter.order("acquire")?;
        let delay = waiter.reply(PATIENCE)?.at - taken;
        assert!(delay >= TTL, "{delay:?}");
        assert_eq!(waiter.ask("release")?, "released");
    }
    Ok(())
}

fn mixed_increments_lose_nothing(theirs: Library) -> Tested {
    // Four clients on each side.
    const GOAL: u64 = 1_200;
    let [ours, theirs] = pair(theirs, "sum", LONG)?.count(GOAL, 4, Duration::from_millis(40))?;
    assert_eq!(ours + theirs, GOAL, "each increment is somebody's");
    Ok(())
}

macro_rules! beside {
    ($($module:ident: $library:expr;)*) => {
        $(mod $module {
            use super::*;
            beside!(each_side_excludes_the_other, $library);
            beside!(who_waits_follows_the_other_side_s_release, $library);
            beside!(a_killed_holder_delays_the_other_side_by_its_ttl, $library);
            beside!(mixed_increments_lose_nothing, $library);
        })*
    };
    ($test:ident, $library:expr) => {
        #[test]
        fn $test() -> Tested {
            super::$test($library)
        }
    };
}

beside! {
    redsync: Library::Redsync;
    redis_py: Library::RedisPy;
    redlock: Library::Redlock;
    redis_semaphore: Library::RedisSemaphore;
}
