//! The reentrant lock beside Redisson's RLock. Neither side asks again before a lease should be over (ours every 20 s), so what
//! happens sooner happens by messages.

use std::time::{Duration, Instant};

use leasehold_interop::{Error, Library};

use crate::Tested;
use crate::pair::{LONG, Pair, server};

fn pair(theirs: Library, test: &str, ttl: Duration) -> Result<Pair, Error> {
    Pair::start([Library::LeaseholdReentrant, theirs], test, ttl)
}

#[test]
fn each_side_excludes_the_other_and_takes_its_own_lock_again() -> Tested {
    pair(Library::Redisson, "door", LONG)?.both_ways(|holder, other| {
        assert_eq!(other.ask("release")?, "not-held");
        assert_eq!(holder.ask("acquire")?, "held");
        assert_eq!(holder.ask("acquire")?, "held");
        assert_eq!(other.ask("try")?, "busy");
        assert_eq!(other.ask("release")?, "not-held");
        assert_eq!(holder.ask("release")?, "still-held");
        assert_eq!(other.ask("try")?, "busy");
        assert_eq!(holder.ask("release")?, "released");
        assert_eq!(other.ask("try")?, "held");
        assert_eq!(holder.ask("try")?, "busy");
        assert_eq!(other.ask("release")?, "released");
        Ok(())
    })
}

#[test]
fn a_release_wakes_the_other_side_by_the_lock_s_channel() -> Tested {
    let mut waits = Vec::new();
    let mut pair = pair(Library::Redisson, "channel", LONG)?;
    for _ in 0..5 {
        pair.both_ways(|holder, waiter| {
            assert_eq!(holder.ask("acquire")?, "held");
            waiter.order("acquire")?;
            assert!(waiter.is_silent(Duration::from_millis(500))?, "it did not wait");
            holder.order("release")?;
            let released = holder.reply(LONG)?.at;
            waits.push(waiter.reply(LONG)?.at.saturating_duration_since(released));
            assert_eq!(waiter.ask("release")?, "released");
            Ok(())
        })?;
    }
    println!("woken after {waits:.1?}");
    // One slow moment of the machine is no poll.
    waits.sort();
    assert!(waits[waits.len() - 2] < Duration::from_millis(100), "{waits:?}");
    Ok(())
}

#[test]
fn nobody_is_woken_without_a_message() -> Tested {
    let name = "redisson-silence";
    pair(Library::Redisson, "silence", LONG)?.both_ways(|holder, waiter| {
        assert_eq!(holder.ask("acquire")?, "held");
        waiter.order("acquire")?;
        assert!(waiter.is_silent(Duration::from_millis(500))?, "it did not wait");
        server().cli(&["DEL", name])?;
        assert!(waiter.is_silent(Duration::from_secs(2))?, "it polls");
        server().cli(&["PUBLISH", &format!("redisson_lock__channel:{{{name}}}"), "0"])?;
        assert_eq!(waiter.reply(Duration::from_millis(500))?.text, "held");
        assert_eq!(holder.ask("release")?, "not-held", "it is the other one's now");
        assert_eq!(waiter.ask("release")?, "released");
        Ok(())
    })
}

#[test]
fn a_killed_holder_delays_the_other_side_by_its_ttl() -> Tested {
    const TTL: Duration = Duration::from_millis(1500);
    for theirs in [Library::Redisson, Library::RedissonFixed] {
        for our_death in [true, false] {
            let mut pair = pair(theirs, if our_death { "our-death" } else { "their-death" }, TTL)?;
            let Pair { ours, theirs, .. } = &mut pair;
            let (holder, waiter) = if our_death { (ours, theirs) } else { (theirs, ours) };
            assert_eq!(holder.ask("acquire")?, "held");
            waiter.order("acquire")?;
            assert!(waiter.is_silent(TTL / 3)?, "it did not wait");
            let killed = Instant::now();
            holder.kill();
            let delay = waiter.reply(LONG)?.at - killed;
            println!("{} died: {delay:.1?}", if our_death { "ours" } else { "theirs" });
            assert!(delay < TTL + Duration::from_millis(300), "{delay:?}");
        }
    }
    Ok(())
}

#[test]
fn a_renewed_lease_outlives_its_ttl_and_the_other_side_goes_on_waiting() -> Tested {
    const TTL: Duration = Duration::from_millis(900);
    pair(Library::Redisson, "renewal", TTL)?.both_ways(|holder, waiter| {
        assert_eq!(holder.ask("acquire")?, "held");
        waiter.order("acquire")?;
        assert!(waiter.is_silent(TTL * 4)?, "it was not renewed, or not respected");
        assert_eq!(holder.ask("release")?, "released");
        assert_eq!(waiter.reply(Duration::from_secs(1))?.text, "held");
        assert_eq!(waiter.ask("release")?, "released");
        Ok(())
    })
}

#[test]
fn ten_thousand_mixed_increments_lose_nothing_and_both_sides_get_a_fair_part() -> Tested {
    // Four owners in one client on each side. Ours gives the lock away after 32 turns and keeps off it for a moment; theirs leaves it to who
    // asks first. Alone on a machine that makes about a third ours, and a quarter is what a busy one may leave of it.
    const GOAL: u64 = 10_000;
    let [ours, theirs] = pair(Library::Redisson, "sum", LONG)?.count(GOAL, 4, Duration::ZERO)?;
    assert_eq!(ours + theirs, GOAL, "each increment is somebody's");
    assert!(ours >= GOAL / 4 && theirs >= GOAL / 4, "ours {ours}, theirs {theirs}");
    Ok(())
}
