use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{Lock, LockManager, redis_1};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, Value};
use tokio::sync::Mutex;

use crate::Result;
use crate::clock::now;

const TTL: Duration = Duration::from_secs(30);
const LINGER: Duration = Duration::from_millis(100);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// This project.
    Leasehold,
    /// The same with leases that linger for 100 ms.
    Lingering,
    /// The same scripts as bare calls of the `redis` crate, on the same connection: the cost of the network alone.
    Raw,
    /// Another Rust library, with its defaults: it polls every 0 to 200 ms.
    Rslock,
    /// A mutex in this process's memory: the speed of tokio's own queue.
    Memory,
}

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::Lingering => "lingering",
            Self::Raw => "raw",
            Self::Rslock => "rslock",
            Self::Memory => "tokio-mutex",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Leasehold, Self::Lingering, Self::Raw, Self::Rslock, Self::Memory]
            .into_iter()
            .find(|one| one.name() == name)
    }

    /// The commands that it sends itself. Others run inside scripts.
    pub(crate) fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Leasehold | Self::Lingering | Self::Raw => &["evalsha", "eval", "subscribe", "ping"],
            Self::Rslock => &["evalsha", "eval", "script|load", "set"],
            Self::Memory => &[],
        }
    }
}

/// Connections, made once for each process.
#[derive(Clone)]
pub(crate) struct Clients {
    connection: MultiplexedConnection,
    /// On the same connection as the bare calls.
    beside_raw: LockManager,
    locks: LockManager,
    rslock: rslock::LockManager,
    memory: Arc<Mutex<()>>,
}

impl Clients {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let info = url.into_connection_info()?;
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self {
            beside_raw: LockManager::from_connection(redis_1::connection(connection.clone())).await?,
            connection,
            locks: LockManager::connect(client.clone()).await?,
            rslock: rslock::LockManager::from_clients(vec![client]),
            memory: Arc::default(),
        })
    }

    /// A lock that nobody else wants, on the connection of the bare calls.
    pub(crate) fn alone(&self, contender: Contender, name: &str) -> Handle {
        match contender {
            Contender::Leasehold => Handle::Leasehold(self.beside_raw.mutex(name).ttl(TTL)),
            _ => self.handle(contender, name),
        }
    }

    /// One lock as one task uses it.
    pub(crate) fn handle(&self, contender: Contender, name: &str) -> Handle {
        match contender {
            Contender::Leasehold => Handle::Leasehold(self.locks.mutex(name).ttl(TTL)),
            Contender::Lingering => Handle::Leasehold(self.locks.mutex(name).ttl(TTL).linger(LINGER)),
            Contender::Raw => Handle::Raw(Raw::new(self.connection.clone(), name)),
            Contender::Rslock => Handle::Rslock(self.rslock.clone(), name.to_owned()),
            Contender::Memory => Handle::Memory(Arc::clone(&self.memory)),
        }
    }

    /// A bare SET, as often as every millisecond, for this long.
    pub(crate) async fn set_for(&self, time: Duration) -> Result {
        let (mut connection, until) = (self.connection.clone(), Instant::now() + time);
        while Instant::now() < until {
            let () = redis::cmd("SET").arg("bare").arg("1").query_async(&mut connection).await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    pub(crate) fn locks(&self) -> &LockManager {
        &self.locks
    }
}

/// How a contender uses one lock.
pub(crate) enum Handle {
    Leasehold(Lock),
    Raw(Raw),
    Rslock(rslock::LockManager, String),
    Memory(Arc<Mutex<()>>),
}

/// When a lock was requested, granted and released.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) released: u64,
}

impl Turn {
    pub(crate) fn wait(&self) -> u64 {
        self.granted.saturating_sub(self.asked)
    }
}

impl Handle {
    /// Acquires the lock, holds it and releases it.
    pub(crate) async fn turn(&mut self, hold: Option<Duration>) -> Result<Turn> {
        let asked = now();
        match self {
            Self::Leasehold(lock) => {
                let lease = lock.acquire().await?;
                let (granted, released) = held(hold).await?;
                lease.release().await?;
                Ok(Turn { asked, granted, released })
            }
            Self::Raw(raw) => {
                let token = raw.acquire().await?;
                let (granted, released) = held(hold).await?;
                raw.release(&token).await?;
                Ok(Turn { asked, granted, released })
            }
            Self::Rslock(locks, name) => {
                let lock = locks.acquire_no_guard(name.as_str(), TTL).await?;
                let (granted, released) = held(hold).await?;
                locks.unlock(&lock).await;
                Ok(Turn { asked, granted, released })
            }
            Self::Memory(mutex) => {
                let guard = mutex.lock().await;
                let (granted, released) = held(hold).await?;
                drop(guard);
                Ok(Turn { asked, granted, released })
            }
        }
    }
}

/// When the lock was granted, and when it is released after the hold.
async fn held(hold: Option<Duration>) -> Result<(u64, u64)> {
    let granted = now();
    let Some(hold) = hold else { return Ok((granted, granted)) };
    // A thread's sleep is exact to a tenth of a millisecond. Tokio's timer rounds up to the next whole millisecond.
    tokio::task::spawn_blocking(move || std::thread::sleep(hold)).await?;
    Ok((granted, now()))
}

/// Sends by hand what the engine sends for an uncontended lock.
pub(crate) struct Raw {
    connection: MultiplexedConnection,
    /// The lock's own key, the counter of the fences, and the queue.
    keys: [String; 3],
    count: u64,
}

impl Raw {
    fn new(connection: MultiplexedConnection, name: &str) -> Self {
        let keys = [name.to_owned(), format!("leasehold:{{{name}}}:queue"), "leasehold:fence".to_owned()];
        Self { connection, keys, count: 0 }
    }

    async fn acquire(&mut self) -> Result<String> {
        self.count += 1;
        let token = format!("01234567-89ab-cdef-0123-456789abcdef:{} ", self.count);
        let mut command = redis::cmd("EVALSHA");
        command.arg(leasehold_lua::ACQUIRE_FAST.sha1).arg(3).arg(&self.keys).arg(&token).arg(30_000);
        match command.query_async(&mut self.connection).await? {
            Value::BulkString(fence) => Ok(token + &String::from_utf8(fence)?),
            other => Err(format!("unexpected answer {other:?}").into()),
        }
    }

    /// `value` is what the acquire wrote.
    async fn release(&mut self, value: &str) -> Result {
        let mut command = redis::cmd("EVALSHA");
        command.arg(leasehold_lua::RELEASE_FAST.sha1).arg(1).arg(&self.keys[0]).arg(value);
        match command.query_async(&mut self.connection).await? {
            Value::Int(1) => Ok(()),
            other => Err(format!("unexpected answer {other:?}").into()),
        }
    }
}
