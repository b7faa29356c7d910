use std::error::Error;
use std::time::Duration;

use leasehold::redis_1::redis::aio::MultiplexedConnection;
use leasehold::redis_1::redis::{AsyncConnectionConfig, Client, FromRedisValue, cmd};

/// The shared state: a counter and its mirror. It checks fences: once a writer has come with a fence, it refuses every
/// smaller one.
///
/// So a slow machine can delay a writer, but can't cause a wrong value. Two writers at once would be noticed, because
/// the account would refuse one of them although its lease is valid.
pub(crate) struct Account {
    connection: MultiplexedConnection,
    counter: String,
    mirror: String,
    fence: String,
}

/// How long the server may take to answer. It is long because the machine may be building something.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The TTL of all keys. They vanish from the user's server even if all processes are killed.
const SECONDS: u64 = 3600;

/// Refuses a smaller fence than the greatest one so far.
macro_rules! fenced {
    ($then:literal) => {
        concat!(
            "if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1])) then return false end
            redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL') ",
            $then
        )
    };
}

const BEGIN: &str = fenced!("return redis.call('GET', KEYS[2])");
const COMMIT: &str = fenced!("for i = 2, 3 do redis.call('SET', KEYS[i], ARGV[2], 'KEEPTTL') end return 1");

impl Account {
    pub(crate) async fn connect(url: &str, prefix: &str) -> Result<Self, Box<dyn Error>> {
        let patient = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        Ok(Self {
            connection: Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await?,
            counter: format!("{prefix}counter"),
            mirror: format!("{prefix}mirror"),
            fence: format!("{prefix}fence"),
        })
    }

    /// Sets all values to zero.
    pub(crate) async fn open(&self) -> Result<(), Box<dyn Error>> {
        for key in [&self.fence, &self.counter, &self.mirror] {
            self.run::<()>(&["SET", key, "0", "EX", &SECONDS.to_string()]).await?;
        }
        Ok(())
    }

    /// A writer comes with this fence. Returns the counter, or nothing if the fence is too old.
    pub(crate) async fn begin(&self, fence: u64) -> Result<Option<i64>, Box<dyn Error>> {
        self.run(&["EVAL", BEGIN, "2", &self.fence, &self.counter, &fence.to_string()]).await
    }

    /// Writes the counter and its mirror, unless the fence is too old. Returns whether it did.
    pub(crate) async fn commit(&self, fence: u64, counter: i64) -> Result<bool, Box<dyn Error>> {
        let keys = [self.fence.as_str(), &self.counter, &self.mirror];
        let (fence, counter) = (fence.to_string(), counter.to_string());
        let words = [["EVAL", COMMIT, "3"].as_slice(), &keys, &[&fence, &counter]].concat();
        Ok(self.run::<Option<i64>>(&words).await?.is_some())
    }

    pub(crate) async fn counter(&self) -> Result<i64, Box<dyn Error>> {
        self.run(&["GET", &self.counter]).await
    }

    pub(crate) async fn mirror(&self) -> Result<i64, Box<dyn Error>> {
        self.run(&["GET", &self.mirror]).await
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
        self.run(&["DEL", &self.counter, &self.mirror, &self.fence]).await
    }

    async fn run<T: FromRedisValue>(&self, words: &[&str]) -> Result<T, Box<dyn Error>> {
        let Some((name, rest)) = words.split_first() else { return Err("no command".into()) };
        Ok(cmd(name).arg(rest).query_async(&mut self.connection.clone()).await?)
    }
}
