use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::Error;

/// A library as a peer uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// Our mutex.
    Leasehold,
    /// Our mutex with `mixed_fleet`.
    LeaseholdMixed,
    /// Our reentrant lock, which polls only every 20 s unless it is woken.
    LeaseholdReentrant,
    /// Our semaphore of five permits.
    LeaseholdSemaphore,
    /// Our rate of 1,000 permits in each TTL.
    LeaseholdRate,
    /// The same by the npm package, which `cargo xtask bench --limits` installs.
    LeaseholdNpmRate,
    /// Our mutex on a quorum of servers.
    LeaseholdQuorum,
    /// Go: `SET NX PX`, polls every 50 to 250 ms.
    Redsync,
    /// Go: `SET NX PXAT`, woken by the server's invalidations.
    Rueidislock,
    /// Go: the same without notifications of its own writes, for locks that nobody waits for.
    RueidislockNoloop,
    /// Python: `SET NX PX`, polls every 100 ms.
    RedisPy,
    /// Node: a script that sets the key, polls every 100 to 300 ms.
    Redlock,
    /// Node: `SET NX PX` on `mutex:` plus the name.
    RedisSemaphore,
    /// Node: a semaphore of five permits, which polls every 10 ms.
    RedisSemaphorePermits,
    /// Java: `RLock`, renewed by its watchdog. The TTL is the watchdog's timeout.
    Redisson,
    /// Java: `RLock` with the TTL as its lease time.
    RedissonFixed,
    /// Java: `RSemaphore` of five permits, which a crash doesn't return.
    RedissonSemaphore,
    /// Java: `RPermitExpirableSemaphore` of five permits, with the TTL as their lease time.
    RedissonExpirable,
    /// Java: `RRateLimiter` of 1,000 permits in each TTL.
    RedissonRate,
    /// Node: `RateLimiterQueue` over `RateLimiterRedis`, with 1,000 points in each TTL.
    RateLimiterFlexible,
}

impl Library {
    /// The name on the peer's command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::LeaseholdMixed => "leasehold-mixed",
            Self::LeaseholdReentrant => "leasehold-reentrant",
            Self::LeaseholdSemaphore => "leasehold-semaphore",
            Self::LeaseholdRate => "leasehold-rate",
            Self::LeaseholdNpmRate => "leasehold-npm-rate",
            Self::LeaseholdQuorum => "leasehold-quorum",
            Self::Redsync => "redsync",
            Self::Rueidislock => "rueidislock",
            Self::RueidislockNoloop => "rueidislock-noloop",
            Self::RedisPy => "redis-py",
            Self::Redlock => "redlock",
            Self::RedisSemaphore => "redis-semaphore",
            Self::RedisSemaphorePermits => "redis-semaphore-permits",
            Self::Redisson => "redisson",
            Self::RedissonFixed => "redisson-fixed",
            Self::RedissonSemaphore => "redisson-semaphore",
            Self::RedissonExpirable => "redisson-expirable",
            Self::RedissonRate => "redisson-rate",
            Self::RateLimiterFlexible => "rate-limiter-flexible",
        }
    }

    /// Whether it runs in a JVM, which is slow at first.
    pub fn is_java(self) -> bool {
        self.name().starts_with("redisson")
    }

    /// The key that it uses for a lock of this name.
    pub fn key(self, name: &str) -> String {
        match self {
            Self::RedisSemaphore => format!("mutex:{name}"),
            _ => name.to_owned(),
        }
    }

    /// The peer program for this library, as `cargo xtask` has built it.
    pub(crate) fn program(self) -> Result<Command, Error> {
        let peers = built("LEASEHOLD_PEERS")?;
        let mut command;
        match self {
            Self::Leasehold
            | Self::LeaseholdMixed
            | Self::LeaseholdReentrant
            | Self::LeaseholdSemaphore
            | Self::LeaseholdRate
            | Self::LeaseholdQuorum => command = Command::new(built("LEASEHOLD_PEER")?),
            Self::Redsync | Self::Rueidislock | Self::RueidislockNoloop => {
                command = Command::new(peers.join("go/peer"))
            }
            Self::RedisPy => {
                command = Command::new(peers.join("python/environment/bin/python"));
                command.arg(peers.join("python/peer.py"));
            }
            Self::Redlock | Self::RedisSemaphore | Self::RedisSemaphorePermits | Self::RateLimiterFlexible => {
                command = Command::new("node");
                command.arg(peers.join("node/main.mjs"));
            }
            Self::LeaseholdNpmRate => {
                command = Command::new("node");
                command.arg(built("LEASEHOLD_NPM_PEER")?);
            }
            Self::Redisson
            | Self::RedissonFixed
            | Self::RedissonSemaphore
            | Self::RedissonExpirable
            | Self::RedissonRate => {
                let target = peers.join("java/target");
                command = Command::new("java");
                command.arg("-cp").arg(format!(
                    "{}:{}",
                    target.join("classes").display(),
                    target.join("dependency/*").display()
                ));
                command.arg("Peer");
            }
        }
        command.arg(self.name());
        Ok(command)
    }
}

fn built(variable: &'static str) -> Result<PathBuf, Error> {
    let path = env::var_os(variable).map(PathBuf::from);
    path.ok_or_else(|| Error::new(format!("{variable} is not set: run `cargo xtask interop`, which builds the peers")))
}
