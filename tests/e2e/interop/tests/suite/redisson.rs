//! The reentrant lock together with Redisson's RLock. Neither side polls before the lease should be over (ours polls
//! every 20 s), so anything that happens sooner happens by messages.

use std::time::{Duration, Instant};

use leasehold_interop::{Error, Library, Peer};
use leasehold_servers::Reply;

use crate::Tested;
use crate::pair::{LONG, PATIENCE, Pair, server};

fn pair(theirs: Library, test: &str, ttl: Duration) -> Result<Pair, Error> {
    Pair::start([Library::LeaseholdReentrant, theirs], test, ttl)
}

fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// Lets a peer wait for a lock, and returns when the peer listens to the lock's channel and has tried once more.
fn wait_on_channel(waiter: &mut Peer, name: &str) -> Tested {
    // Earlier waiters need a moment to unsubscribe.
    until_listeners(name, 0)?;
    waiter.order("acquire")?;
    until_listeners(name, 1)?;
    assert!(waiter.is_silent(Duration::from_millis(500))?, "it did not wait");
    Ok(())
}

fn until_listeners(name: &str, count: i64) -> Tested {
    let start = Instant::now();
    while server().cli(&["PUBSUB", "NUMSUB", &channel(name)])?.list().last().and_then(Reply::integer) != Some(count) {
        assert!(start.elapsed() < PATIENCE, "never {count} listeners");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits until a lock has more time left than before.
fn until_renewed(name: &str) -> Tested {
    let left = || Ok::<_, leasehold_servers::Error>(server().cli(&["PTTL", name])?.integer().unwrap_or_default());
    let (start, mut before) = (Instant::now(), left()?);
    loop {
        std::thread::sleep(Duration::from_millis(5));
        let now = left()?;
        assert!(now > 0 && start.elapsed() < PATIENCE, "it was not renewed: {now} ms");
        if now > before {
            return Ok(());
        }
        before = now;
    }
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
    // Without a message, our waiter asks after 20 s, and theirs when the lease should be over.
    const SOONER: Duration = Duration::from_secs(15);
    let mut waits = Vec::new();
    let mut pair = pair(Library::Redisson, "channel", LONG)?;
    for _ in 0..5 {
        pair.both_ways(|holder, waiter| {
            assert_eq!(holder.ask("acquire")?, "held");
            wait_on_channel(waiter, "redisson-channel")?;
            holder.order("release")?;
            let released = holder.reply(PATIENCE)?.at;
            waits.push(waiter.reply(PATIENCE)?.at.saturating_duration_since(released));
            assert_eq!(waiter.ask("release")?, "released");
            Ok(())
        })?;
    }
    println!("woken after {waits:.1?}");
    // One slow wake-up may come from a slow machine. So each side needs only one quick one. The sides take turns.
    for first in [0, 1] {
        assert!(waits.iter().skip(first).step_by(2).any(|wait| *wait < SOONER), "{waits:?}");
    }
    Ok(())
}

#[test]
fn nobody_is_woken_without_a_message() -> Tested {
    let name = "redisson-silence";
    pair(Library::Redisson, "silence", LONG)?.both_ways(|holder, waiter| {
        assert_eq!(holder.ask("acquire")?, "held");
        wait_on_channel(waiter, name)?;
        server().cli(&["DEL", name])?;
        assert!(waiter.is_silent(Duration::from_secs(2))?, "it polls");
        server().cli(&["PUBLISH", &channel(name), "0"])?;
        assert_eq!(waiter.reply(PATIENCE)?.text, "held");
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
            let taken = holder.order("acquire")?;
            assert_eq!(holder.reply(PATIENCE)?.text, "held");
            holder.kill();
            waiter.order("acquire")?;
            let delay = waiter.reply(PATIENCE)?.at - taken;
            println!("{} died: {delay:.1?}", if our_death { "ours" } else { "theirs" });
            assert!(delay >= TTL, "{delay:?}");
        }
    }
    Ok(())
}

#[test]
fn a_lease_is_renewed_and_the_other_side_goes_on_waiting() -> Tested {
    // Both sides renew after a third of the TTL.
    const TTL: Duration = Duration::from_secs(15);
    pair(Library::Redisson, "renewal", TTL)?.both_ways(|holder, waiter| {
        assert_eq!(holder.ask("acquire")?, "held");
        waiter.order("acquire")?;
        until_renewed("redisson-renewal")?;
        assert!(waiter.is_silent(Duration::from_millis(500))?, "the renewal was not respected");
        assert_eq!(holder.ask("release")?, "released");
        assert_eq!(waiter.reply(PATIENCE)?.text, "held");
        assert_eq!(waiter.ask("release")?, "released");
        Ok(())
    })
}

#[test]
fn ten_thousand_mixed_increments_lose_nothing() -> Tested {
    // Four owners in one client on each side.
    const GOAL: u64 = 10_000;
    let [ours, theirs] = pair(Library::Redisson, "sum", LONG)?.count(GOAL, 4, Duration::ZERO)?;
    assert_eq!(ours + theirs, GOAL, "each increment is somebody's");
    Ok(())
}
