//! Steps at random: users who misuse the engine, servers that answer garbage, a clock that jumps.

use leasehold_fuzz::{Answering, World, steps};
use leasehold_harness::Rng;

const SEEDS: u64 = 30;
const STEPS: usize = 10_000;

#[test]
fn any_steps_end_every_call_once_and_leave_nothing_whether_or_not_the_server_answers() {
    for seed in 0..2 * SEEDS {
        let mut run = Run::new(seed);
        (0..STEPS).for_each(|_| run.step());
        assert!(run.world.grants() > STEPS / 100, "seed {seed}: only {} leases", run.world.grants());
        run.world.end(if seed < SEEDS { Answering::Server } else { Answering::Nobody });
    }
}

#[test]
fn a_close_ends_every_call_and_lease_and_leaves_nothing() {
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        (0..500).for_each(|_| run.step());
        run.take("close");
        (0..500).for_each(|_| run.step());
        run.world.end(if seed % 2 == 0 { Answering::Server } else { Answering::Nobody });
    }
}

#[test]
fn a_drain_ends_every_wait_and_grants_nothing_more_and_a_close_may_follow() {
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        (0..500).for_each(|_| run.step());
        let grace = run.one_of("0 100 5000 60000 18446744073709551615");
        run.take(&format!("drain {grace}"));
        (0..500).for_each(|_| run.step());
        if seed.is_multiple_of(3) {
            run.take("close");
        }
        (0..500).for_each(|_| run.step());
        run.world.end(if seed % 2 == 0 { Answering::Server } else { Answering::Nobody });
    }
}

struct Run {
    world: World,
    rng: Rng,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mixed = if rng.once_in(8) { " mixed" } else { "" };
        let world = World::new(&format!("handoffs={}{mixed}", rng.pick(&[0, 1, 32])));
        Self { world, rng }
    }

    fn take(&mut self, line: &str) {
        steps(line.as_bytes()).for_each(|step| self.world.step(step));
    }

    /// One of the words.
    fn one_of(&mut self, words: &'static str) -> &'static str {
        let words: Vec<&str> = words.split(' ').collect();
        self.rng.pick::<&str>(&words)
    }

    fn step(&mut self) {
        let sleep = match self.rng.below(400) {
            0 => self.rng.below(20_000_000),
            1..=5 => self.rng.below(700_000),
            6..=200 => self.rng.below(5_000),
            _ => 0,
        };
        self.take(&format!("sleep {sleep}"));
        let line = match self.rng.below(20) {
            0..=2 => self.acquire(),
            3..=6 => self.about_a_lease(),
            7 => format!("cancel {}", self.rng.below(5_000)),
            8..=14 => self.reply(),
            15 => self.dedicated(),
            16 | 17 => self.message(),
            18 if self.rng.once_in(4) => {
                let cause = self.one_of("interrupted interrupted interrupted interrupted unsupported");
                format!("unsubscribed {cause}")
            }
            18 => "subscribed".into(),
            _ => self.one_of("lose wake wake").into(),
        };
        self.take(&line);
    }

    fn acquire(&mut self) -> String {
        let name = self.one_of("a b {t}1 r s adopted");
        let mut line = if name == "adopted" {
            // A token of another client, or one that this client has used or will use.
            let client = self.one_of("$own ffffffff-ffff-ffff-ffff-ffffffffffff");
            format!("adopt {name} {client}:{}", self.rng.below(200))
        } else {
            format!("acquire {name}")
        };
        line += *self.rng.pick::<&str>(&["", " shared"]);
        line += &format!(
            " ttl={} permits={}",
            self.one_of("9 10 900 900 5000 5000 30000 30000 30000"),
            self.one_of("1 1 1 2 3 4")
        );
        line += &match self.rng.below(4) {
            0 => " try".into(),
            1 => " forever".into(),
            _ => format!(" wait={}", self.rng.below(9_000)),
        };
        for (word, most) in [("fixed", 1), ("max-hold", 8_000), ("linger", 400), ("within", 500), ("replicas", 1)] {
            // While a call waits for replicas, its owner may take and release the lease by another one.
            if self.rng.once_in(4) && (name, word) != ("r", "replicas") {
                line += &format!(" {word}={}", self.rng.below(most));
            }
        }
        line
    }

    /// Users may name a lease that is over, and one that there never was.
    fn about_a_lease(&mut self) -> String {
        let verb = self.one_of(
            "release release release release release release release release extend shorten detach convert convert hold verify export keep stop-renewing inspect",
        );
        match verb {
            "inspect" => format!("inspect {}", self.one_of("a b }")),
            _ if self.rng.once_in(4) => {
                format!(
                    "{verb} {} {}",
                    self.rng.below(self.world.grants() as u64 + 2),
                    self.one_of("0 1 1000 40000 18446744073709551615")
                )
            }
            _ => verb.into(),
        }
    }

    fn reply(&mut self) -> String {
        let id = self.rng.below(20_000);
        match self.rng.below(16) {
            0..=8 => format!("serve {}", self.rng.range((1, 8))),
            9 | 10 => format!("other {} {}", self.rng.below(3), self.answer()),
            11 => format!("reply {id} {}", self.answer()),
            12 => format!("answer {}", self.garbage()),
            13 => format!("one {}", self.one_of("nil -1 9223372036854775807 entered")),
            14 => format!(
                "refused {}",
                self.rng.pick(&[
                    "NOSCRIPT none",
                    "WRONGTYPE of key",
                    "NOPERM no",
                    "LOADING",
                    "OOM full",
                    "TRYAGAIN",
                    ""
                ])
            ),
            _ => self.one_of("interrupted unavailable timed-out unsupported").into(),
        }
    }

    /// Well formed, whether or not it fits the question.
    fn answer(&mut self) -> String {
        let status = self.one_of("entered again converted waiting busy renewed released left gone taken conflict");
        let (value, block) = (self.one_of("0 1 2 $now"), self.one_of("0 1 2 33"));
        let (ms, waiting) = (self.one_of("0 1 5 400 3000 30000 60000"), self.one_of("0 0 1 500"));
        format!("{status} {value} {block} $now {ms} {waiting} {}", self.rng.below(2))
    }

    fn garbage(&mut self) -> String {
        if self.rng.once_in(3) {
            return "waiting waiting waiting waiting waiting waiting waiting".into();
        }
        (0..self.rng.below(9)).map(|_| self.one_of("nil -1 9223372036854775807 entered")).collect::<Vec<_>>().join(" ")
    }

    fn dedicated(&mut self) -> String {
        match self.rng.below(8) {
            0..=3 => "replicas 2".into(),
            4 | 5 => "dedicated renewed 0 0 $now 30000 0 0".into(),
            6 => format!("dedicated {}", self.answer()),
            _ => "replicas 1".into(),
        }
    }

    fn message(&mut self) -> String {
        let name = self.one_of("a b {t}1 s adopted");
        match self.rng.below(6) {
            0 => "channel redisson_lock__channel:{r} 0".into(),
            1 | 2 => format!("message wanted {name}"),
            _ => {
                let mode = self.one_of("exclusive shared none");
                let (token, fence) = (self.rng.below(200), self.rng.draw() >> 11);
                let ms = self.one_of("0 10 3000");
                format!("message grant $own:{token} {mode} {fence} 3 $now {ms} {} {name}", self.rng.below(2))
            }
        }
    }
}
