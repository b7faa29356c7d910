use std::error::Error;
use std::time::Duration;

use leasehold::redis::aio::MultiplexedConnection;
use leasehold::redis::{AsyncConnectionConfig, Client, FromRedisValue, cmd};

/// The shared state: a counter and its mirror, which only the lock protects, and a ledger, which checks fences.
pub(crate) struct Account {
    connection: MultiplexedConnection,
    counter: String,
    mirror: String,
    ledger: String,
}

/// How long the server may take to answer. Long, because the machine may be building something.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The TTL of all keys. They vanish from the user's server even if all processes are killed.
const SECONDS: u64 = 3600;

/// A resource that checks fences: it remembers the greatest fence and refuses a write with a smaller one.
const APPEND: &str = "
    if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence')) then return 0 end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1])
    redis.call('HINCRBY', KEYS[1], 'entries', 1)
    return 1";

impl Account {
    pub(crate) async fn connect(url: &str, prefix: &str) -> Result<Self, Box<dyn Error>> {
        let patient = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        Ok(Self {
            connection: Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await?,
            counter: format!("{prefix}counter"),
            mirror: format!("{prefix}mirror"),
            ledger: format!("{prefix}ledger"),
        })
    }

    /// Sets all values to zero.
    pub(crate) async fn open(&self) -> Result<(), Box<dyn Error>> {
        self.set(0).await?;
        self.run::<()>(&["HSET", &self.ledger, "fence", "0", "entries", "0"]).await?;
        self.run(&["EXPIRE", &self.ledger, &SECONDS.to_string()]).await
    }

    pub(crate) async fn counter(&self) -> Result<i64, Box<dyn Error>> {
        self.run(&["GET", &self.counter]).await
    }

    pub(crate) async fn mirror(&self) -> Result<i64, Box<dyn Error>> {
        self.run(&["GET", &self.mirror]).await
    }

    /// Writes the counter, and then its mirror. The two differ between the writes.
    pub(crate) async fn set(&self, counter: i64) -> Result<(), Box<dyn Error>> {
        for key in [&self.counter, &self.mirror] {
            self.run::<()>(&["SET", key, &counter.to_string(), "EX", &SECONDS.to_string()]).await?;
        }
        Ok(())
    }

    /// Adds an entry to the ledger, unless the fence is too old. Returns whether it did.
    pub(crate) async fn append(&self, fence: u64) -> Result<bool, Box<dyn Error>> {
        self.run(&["EVAL", APPEND, "1", &self.ledger, &fence.to_string()]).await
    }

    /// The server's kind and version.
    pub(crate) async fn server(&self) -> Result<String, Box<dyn Error>> {
        let info: String = self.run(&["INFO", "server"]).await?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        Ok(match field("valkey_version:") {
            "" => format!("Redis {}", field("redis_version:")),
            version => format!("Valkey {version}"),
        })
    }

    /// Deletes all keys.
    pub(crate) async fn close(&self) -> Result<(), Box<dyn Error>> {
        self.run(&["DEL", &self.counter, &self.mirror, &self.ledger]).await
    }

    async fn run<T: FromRedisValue>(&self, words: &[&str]) -> Result<T, Box<dyn Error>> {
        let Some((name, rest)) = words.split_first() else { return Err("no command".into()) };
        Ok(cmd(name).arg(rest).query_async(&mut self.connection.clone()).await?)
    }
}
