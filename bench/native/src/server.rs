use std::collections::HashMap;
use std::time::Duration;

use leasehold_servers::{Reply, Server};

use crate::Result;
use crate::contender::{Clients, Contender};

/// A server of our own, so that all the work it does belongs to the measurement.
pub(crate) struct Bench {
    server: Server,
    pub(crate) clients: Clients,
    /// Its name and version.
    pub(crate) name: String,
    /// Whether only the rows that the README shows are measured.
    quick: bool,
}

/// What the server has done so far.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    calls: HashMap<String, u64>,
    cpu: Duration,
}

impl Bench {
    pub(crate) async fn start(quick: bool) -> Result<Self> {
        let server = Server::start()?;
        for script in leasehold_lua::ALL {
            server.cli(&["SCRIPT", "LOAD", script.source])?;
        }
        let clients = Clients::connect(&server.url()).await?;
        let mut bench = Self { server, clients, name: String::new(), quick };
        let info = bench.info("server")?;
        bench.name = match info.get("valkey_version") {
            Some(version) => format!("Valkey {version}"),
            None => format!("Redis {}", info.get("redis_version").map_or("?", String::as_str)),
        };
        Ok(bench)
    }

    /// The rows or rounds of a table: all of them, or those of a quick run.
    pub(crate) fn choose<T>(&self, all: T, quick: T) -> T {
        if self.quick { quick } else { all }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// A connection for commands that no lock library sends.
    pub(crate) async fn connection(&self) -> Result<redis::aio::MultiplexedConnection> {
        Ok(redis::Client::open(self.url())?.get_multiplexed_async_connection().await?)
    }

    pub(crate) fn spent(&self) -> Result<Spent> {
        let cpu = self.info("cpu")?;
        let seconds = |field: &str| cpu.get(field).and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
        let stats = self.info("commandstats")?;
        let calls = stats.iter().filter_map(|(field, value)| {
            let calls = value.split(',').find_map(|part| part.strip_prefix("calls="))?;
            Some((field.strip_prefix("cmdstat_")?.to_owned(), calls.parse().ok()?))
        });
        Ok(Spent {
            calls: calls.collect(),
            cpu: Duration::from_secs_f64(seconds("used_cpu_user") + seconds("used_cpu_sys")),
        })
    }

    /// The memory that the server uses, in bytes.
    pub(crate) fn memory(&self) -> Result<i64> {
        Ok(self.info("memory")?.get("used_memory").ok_or("no used_memory")?.parse()?)
    }

    /// Makes the server log its slow calls from now on.
    pub(crate) fn log_slow_calls(&self) -> Result {
        self.server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "100", "slowlog-max-len", "100000"])?;
        self.server.cli(&["SLOWLOG", "RESET"])?;
        Ok(())
    }

    /// The longest call of a command that the server has logged. Zero if it has logged none.
    pub(crate) fn longest_call(&self, command: &str) -> Result<Duration> {
        let calls = self.server.cli(&["SLOWLOG", "GET", "-1"])?;
        let micros = calls.list().iter().filter_map(|call| match call.list() {
            [_, _, Reply::Integer(micros), words, ..] if is(words.list(), command) => u64::try_from(*micros).ok(),
            _ => None,
        });
        Ok(Duration::from_micros(micros.max().unwrap_or(0)))
    }

    fn info(&self, section: &str) -> Result<HashMap<String, String>> {
        let Reply::Text(text) = self.server.cli(&["INFO", section])? else { return Err("INFO is no text".into()) };
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Ok(pairs.map(|(field, value)| (field.to_owned(), value.trim().to_owned())).collect())
    }
}

fn is(words: &[Reply], command: &str) -> bool {
    words.first().and_then(Reply::text).is_some_and(|word| word.eq_ignore_ascii_case(command))
}

impl Spent {
    /// The server's processor time since `before`.
    pub(crate) fn cpu_since(&self, before: &Self) -> Duration {
        self.cpu.saturating_sub(before.cpu)
    }

    /// The commands that a contender's clients sent since `before`.
    pub(crate) fn commands_since(&self, before: &Self, contender: Contender) -> u64 {
        let calls = |spent: &Self| -> u64 {
            contender.commands().iter().map(|name| spent.calls.get(*name).copied().unwrap_or(0)).sum()
        };
        calls(self).saturating_sub(calls(before))
    }
}
