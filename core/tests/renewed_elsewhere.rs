//! Another thread renews the leases while the driver is blocked.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Input, Instant, Kind, LeaseId, Mode, OpId, Outcome, Owner, Part, Renewal, Reply, Scalar, Wait,
};
use leasehold_harness::answers::SERVER_US;

use crate::world::{NAME, World, options, scripts, seconds};

mod world;

/// The TTL of the leases, in milliseconds.
const TTL: u64 = 30_000;

fn renewals(world: &World, lease: LeaseId) -> Vec<Renewal> {
    let mut renewals = Vec::new();
    world.clients[0].engine.renewals(lease, |renewal| renewals.push(renewal));
    renewals
}

/// The thread that renews.
struct Worker {
    renewals: Vec<Renewal>,
    /// The last renewal that the server confirmed, for each of them: when it was sent, and what remained.
    confirmed: Vec<Option<(Instant, Duration)>>,
}

impl Worker {
    fn of(world: &World, lease: LeaseId) -> Self {
        let renewals = renewals(world, lease);
        let confirmed = renewals.iter().map(|_| None).collect();
        Self { renewals, confirmed }
    }

    /// Sends all renewals now. Returns how many the server confirmed.
    fn renew(&mut self, world: &mut World) -> usize {
        let sent = world.clients[1].now;
        for (renewal, confirmed) in self.renewals.iter().zip(&mut self.confirmed) {
            let words: Vec<&[u8]> = renewal.command.words().collect();
            assert_eq!(words.last(), Some(&TTL.to_string().as_bytes()));
            *confirmed = match world.server.execute(SERVER_US as u64 + sent, &words).unwrap().reply {
                Ok(Reply::List(answer)) if answer.first() == Some(&Scalar::Text(b"renewed".to_vec())) => {
                    let Some(Scalar::Int(left)) = answer.get(4) else { panic!("{answer:?}") };
                    Some((Instant::from_micros(sent), Duration::from_millis(u64::try_from(*left).unwrap())))
                }
                Ok(_) => None,
                Err(error) => panic!("{error}"),
            };
        }
        self.confirmed.iter().flatten().count()
    }

    /// The driver goes on and reads what was confirmed.
    fn tell(&self, world: &mut World) {
        for (renewal, confirmed) in self.renewals.iter().zip(&self.confirmed) {
            if let Some((sent, left)) = *confirmed {
                world.clients[0].engine.renewed(renewal.lease, renewal.token, sent, left);
            }
        }
    }
}

/// The first client is blocked for a minute. Meanwhile its worker renews at each ten seconds.
fn block(world: &mut World, worker: &mut Worker) {
    world.still[0] = true;
    for _ in 0..6 {
        world.pass(seconds(10));
        assert_eq!(worker.renew(world), worker.renewals.len());
    }
    world.pass(seconds(5));
    world.still[0] = false;
}

fn wake(world: &mut World) {
    world.clients[0].feed(Input::Wake);
    world.serve();
}

#[test]
fn a_lease_that_was_renewed_elsewhere_outlasts_a_blocked_driver() {
    let kinds = [
        options(),
        AcquireOptions { mode: Mode::Shared, ..options() },
        AcquireOptions { kind: Kind::Semaphore { permits: 1, limit: 2 }, ..options() },
        AcquireOptions { kind: Kind::Reentrant(Owner(7)), ..options() },
        AcquireOptions { kind: Kind::Once { keep: seconds(60) }, ..options() },
    ];
    for options in kinds {
        let mut world = World::new(2);
        let lease = world.acquire(0, options);
        let mut worker = Worker::of(&world, lease);
        assert_eq!(worker.renewals.len(), 1);
        block(&mut world, &mut worker);
        worker.tell(&mut world);
        wake(&mut world);
        assert_eq!(world.clients[0].lost, [], "{options:?}");
        // From then on the engine itself renews it, and at the usual time.
        world.pass(seconds(120));
        assert_eq!(world.clients[0].lost, [], "{options:?}");
        let released = world.call(0, |op| Input::Release { op, lease });
        assert!(matches!(released, Some(Ok(Outcome::Released(_)))), "{released:?}");
        assert!(world.clients[0].engine.is_idle());
    }
}

#[test]
fn a_lease_of_several_names_outlasts_it_too() {
    let mut world = World::new(2);
    let (parts, options) = (Part::mutexes(&["a", "b"]), options());
    let op = world.clients[0].call(|op| Input::AcquireAll { op, parts: &parts, options: &options, one_script: false });
    world.serve();
    let Some(Ok(Outcome::AcquiredAll { lease, .. })) = world.clients[0].result_of(op).cloned() else {
        panic!("not acquired")
    };
    let mut worker = Worker::of(&world, lease);
    assert_eq!(worker.renewals.len(), 2);
    block(&mut world, &mut worker);
    worker.tell(&mut world);
    wake(&mut world);
    assert_eq!(world.clients[0].lost, []);
}

#[test]
fn without_it_the_lease_is_lost_before_anything_else_counts() {
    let mut world = World::new(2);
    let lease = world.acquire(0, options());
    let mut worker = Worker::of(&world, lease);
    block(&mut world, &mut worker);
    wake(&mut world);
    assert_eq!(world.clients[0].lost.len(), 1);
}

#[test]
fn the_lease_ends_when_its_last_confirmed_renewal_does() {
    let mut world = World::new(2);
    let lease = world.acquire(0, options());
    let mut worker = Worker::of(&world, lease);
    world.still[0] = true;
    world.pass(seconds(10));
    assert_eq!(worker.renew(&mut world), 1);
    world.pass(Duration::from_millis(29_000));
    world.still[0] = false;
    worker.tell(&mut world);
    let until = world.clients[0].engine.valid_until(lease).unwrap().as_micros();
    // Measured from when the renewal was sent, less drift and margin.
    assert_eq!(until, world.clients[1].now - 29_000_000 + 29_648_000);
    world.outage = true;
    world.pass_in_silence(seconds(1));
    assert_eq!(world.clients[0].lost.first().map(|(lost, at, _)| (*lost, *at)), Some((lease, until)));
}

#[test]
fn what_was_confirmed_before_the_lease_got_another_token_does_not_count() {
    let mut world = World::new(2);
    let lease = world.acquire(0, options());
    let mut worker = Worker::of(&world, lease);
    assert_eq!(worker.renew(&mut world), 1);
    world.call(0, |op| Input::Shorten { op, lease, ttl: seconds(1) });
    assert!(renewals(&world, lease).is_empty(), "nothing renews a lease that was shortened");
    // Its holder wants it longer, and the server doesn't answer.
    world.clients[0].call(|op| Input::Extend { op, lease, ttl: seconds(10) });
    let until = world.clients[0].engine.valid_until(lease);
    worker.tell(&mut world);
    assert_eq!(world.clients[0].engine.valid_until(lease), until);
    assert_eq!(worker.renew(&mut world), 0, "the server has forgotten the token");
}

#[test]
fn a_conversion_needs_other_renewals() {
    let mut world = World::new(2);
    let lease = world.acquire(0, options());
    let old = renewals(&world, lease);
    world.call(0, |op| Input::Convert { op, lease, mode: Mode::Shared });
    let new = renewals(&world, lease);
    assert_ne!(old[0].token, new[0].token);
    assert_ne!(old[0].command, new[0].command);
}

#[test]
fn a_shorten_without_an_answer_is_sent_again_in_time() {
    let mut world = World::new(2);
    let lease = world.acquire(0, options());
    let mut worker = Worker::of(&world, lease);
    assert_eq!(worker.renew(&mut world), 1);
    world.clients[0].call(|op| Input::Shorten { op, lease, ttl: seconds(1) });
    worker.tell(&mut world);
    world.pass_in_silence(Duration::from_millis(900));
    assert!(scripts(&world.clients[0]).iter().filter(|script| **script == "convert").count() > 2);
}

#[test]
fn a_renewal_after_the_release_revives_nothing() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let mut world = World::new(2);
        let lease = world.acquire(0, AcquireOptions { mode, ..options() });
        let mut worker = Worker::of(&world, lease);
        world.call(0, |op| Input::Release { op, lease });
        assert_eq!(worker.renew(&mut world), 0);
        assert!(world.is_free_for(1, options()));
        // The next holder's lease stays as it is, too.
        world.acquire(1, options());
        let left = world.left();
        assert_eq!((worker.renew(&mut world), world.left()), (0, left));
        worker.tell(&mut world);
        assert!(world.clients[0].engine.is_idle());
    }
}

#[test]
fn the_end_of_a_lease_is_known_and_a_fixed_lease_has_no_renewals() {
    let mut world = World::new(2);
    let lease = world.acquire(0, AcquireOptions { max_hold: Some(seconds(40)), ..options() });
    let mut worker = Worker::of(&world, lease);
    let ends = world.clients[0].now + 40_000_000;
    assert_eq!(worker.renewals[0].ends, Some(Instant::from_micros(ends)));
    // A renewal from elsewhere doesn't move it.
    world.still[0] = true;
    world.pass(seconds(25));
    assert_eq!(worker.renew(&mut world), 1);
    world.still[0] = false;
    worker.tell(&mut world);
    world.pass(seconds(30));
    assert_eq!(world.clients[0].lost.first().map(|(_, at, _)| *at), Some(ends));
    assert!(renewals(&world, lease).is_empty());

    let mut world = World::new(2);
    let lease = world.acquire(0, options());
    world.clients[0].feed(Input::StopRenewing { lease });
    assert!(renewals(&world, lease).is_empty());
}

#[test]
fn a_caller_that_waits_for_the_lock_in_this_process_is_served_after_the_block() {
    let mut world = World::new(2);
    let lease = world.acquire(0, options());
    let waits = world.clients[0].acquire(NAME, AcquireOptions { wait: Wait::Forever, ..options() });
    let mut worker = Worker::of(&world, lease);
    block(&mut world, &mut worker);
    worker.tell(&mut world);
    world.call(0, |op: OpId| Input::Release { op, lease });
    let next = world.clients[0].grant_of(waits);
    let token = renewals(&world, next.lease)[0].token;
    assert_eq!(token, worker.renewals[0].token, "it was handed over inside this process");
}
