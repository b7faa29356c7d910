//! What all kinds of locks have in common. The table names them, so a new kind is tested too.

mod world;

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Error, Family, Input, Kind, KindFields, LossReason, OpId, Outcome, Owner, ReleaseOutcome, Wait,
};

use self::world::{NAME, World, options, seconds};

/// An acquire of any kind.
struct Any;

impl KindFields for Any {
    fn owner(&self) -> Option<Owner> {
        Some(Owner(1))
    }

    fn permits(&self) -> Option<u32> {
        Some(2)
    }

    fn limit(&self) -> Option<u32> {
        Some(2)
    }

    fn keep(&self) -> Option<Duration> {
        Some(seconds(3_600))
    }
}

fn kinds() -> impl Iterator<Item = Kind> {
    Family::ALL.iter().map(|kind| kind.read(&Any).expect("every field is there"))
}

fn asks(world: &mut World, place: usize, kind: Kind, wait: Wait) -> OpId {
    let options = AcquireOptions { kind, wait, ..options() };
    let op = match kind {
        Kind::Election => {
            world.clients[place].call(|op| Input::Campaign { op, name: NAME, value: "", options: &options })
        }
        _ => world.clients[place].acquire(NAME, options),
    };
    world.serve();
    op
}

#[test]
fn a_lock_of_every_kind_is_taken_seen_waited_for_and_handed_over() {
    for kind in kinds() {
        let mut world = World::new(2);
        let op = asks(&mut world, 0, kind, Wait::Forever);
        let grant = world.clients[0].grant_of(op);
        assert_eq!(world.left(), 30_000, "{kind:?}");
        let waits = asks(&mut world, 1, kind, Wait::Forever);
        assert!(world.clients[1].result_of(waits).is_none(), "{kind:?}");
        let inspected = world.call(1, |op| Input::Inspect { op, name: NAME });
        let Some(Ok(Outcome::Inspected(seen))) = inspected else { panic!("{kind:?}: {inspected:?}") };
        let [holder] = seen.holders.as_slice() else { panic!("{kind:?}: {seen:?}") };
        assert!(!holder.foreign && holder.token.starts_with("01010101-"), "{kind:?}: {seen:?}");
        // It is renewed.
        world.pass(seconds(60));
        assert!(world.left() >= 19_000, "{kind:?}: {}", world.left());
        let released = world.call(0, |op| Input::Release { op, lease: grant.lease });
        assert_eq!(released, Some(Ok(Outcome::Released(ReleaseOutcome::Released))), "{kind:?}");
        world.pass(seconds(3));
        assert!(world.clients[1].grant_of(waits).fence > grant.fence, "{kind:?}");
    }
}

#[test]
fn an_operator_can_take_a_lock_of_every_kind() {
    for kind in kinds() {
        let mut world = World::new(2);
        let op = asks(&mut world, 0, kind, Wait::Forever);
        let lease = world.clients[0].grant_of(op).lease;
        let forced = world.call(1, |op| Input::ForceRelease { op, name: NAME, foreign: false });
        assert_eq!(forced, Some(Ok(Outcome::Revoked(1))), "{kind:?}");
        world.pass(seconds(10));
        let lost: Vec<_> = world.clients[0].lost.iter().map(|(lost, _, reason)| (*lost, *reason)).collect();
        assert!(matches!(*lost, [(id, LossReason::Revoked | LossReason::Gone)] if id == lease), "{kind:?}: {lost:?}");
    }
}

#[test]
fn a_name_holds_one_kind_at_a_time() {
    for (held, asked) in kinds().flat_map(|held| kinds().map(move |asked| (held, asked))) {
        let mut world = World::new(2);
        asks(&mut world, 0, held, Wait::Forever);
        let op = asks(&mut world, 1, asked, Wait::No);
        let refused = world.clients[1].result_of(op);
        match refused {
            Some(Err(Error::Busy { .. })) if held == asked => {}
            // A campaign never just tries.
            None if held == asked && asked == Kind::Election => {}
            Some(Err(Error::WrongKind(_))) if held != asked => {}
            _ => panic!("{asked:?} of a {held:?}: {refused:?}"),
        }
    }
}
