//! The servers and proxies that people have, and what each surface does with them.
//!
//! [`ALL`] is the table. A real program is used where one can be installed. The others are emulated: their answers are
//! taken from their sources and manuals.

mod lua54;
mod proxies;
mod smoke;

use std::any::Any;
use std::env;
use std::net::SocketAddr;

use leasehold_servers::requests::{Words, is};
use leasehold_servers::{Fate, Proxy, Server};

use lua54::Lua54;
use proxies::{Proxied, start_envoy, start_twemproxy};

/// A server or a proxy.
pub(crate) struct Emulation {
    pub(crate) name: &'static str,
    /// Whether it is the real program.
    pub(crate) is: Is,
    pub(crate) start: fn() -> Running,
    /// What the step `open` has beside the client, as JSON.
    pub(crate) options: &'static str,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Is {
    Real,
    Emulated,
}

pub(crate) enum Outcome {
    Works,
    /// Every surface fails with `unsupported`, and these words are in the message.
    Refused(&'static str),
}

/// It stops when it is dropped.
pub(crate) struct Running {
    pub(crate) url: String,
    /// Where the keys are.
    pub(crate) server: SocketAddr,
    _keep: Box<dyn Any>,
}

use Is::{Emulated, Real};
use Outcome::{Refused, Works};

/// ioredis sends INFO and CLIENT when it connects. If that closes the connection, it connects again for ever.
const ONLY_LOCKS: &str = r#"{ "only-locks": true }"#;

/// To add one, add a line.
#[rustfmt::skip]
pub(crate) const ALL: &[Emulation] = &[
    Emulation { name: "twemproxy 0.5", is: Real, start: || start_twemproxy().into(), options: ONLY_LOCKS, outcome: Works },
    Emulation { name: "Envoy 1.40", is: Real, start: || start_envoy().into(), options: "{}", outcome: Works },
    Emulation { name: "a proxy without INFO", is: Emulated, start: without_info, options: ONLY_LOCKS, outcome: Works },
    Emulation { name: "Dragonfly 1.40", is: Emulated, start: || Lua54::start(DRAGONFLY).into(), options: "{}", outcome: Works },
    Emulation { name: "Garnet 1.1", is: Emulated, start: || Lua54::start(GARNET).into(), options: "{}", outcome: Works },
    Emulation { name: "KeyDB 6.3", is: Emulated, start: || keydb("master"), options: "{}", outcome: Works },
    Emulation { name: "KeyDB 6.3, active replica", is: Emulated, start: || keydb("active-replica"), options: "{}", outcome: Refused("active replica of KeyDB") },
    Emulation { name: "one address that enforces slots", is: Emulated, start: slots, options: "{}", outcome: Works },
    Emulation { name: "a server that refuses TIME", is: Emulated, start: without_time, options: "{}", outcome: Works },
    Emulation { name: "Kvrocks 2.10", is: Emulated, start: kvrocks, options: "{}", outcome: Refused("Kvrocks 2.10.0") },
];

const DRAGONFLY: &str = "# Server\r\nredis_version:7.4.0\r\ndragonfly_version:df-v1.40.0\r\nredis_mode:standalone\r\n";
const GARNET: &str =
    "# Server\r\ngarnet_version:1.1.1\r\nserver_name:garnet\r\nredis_version:7.4.3\r\nredis_mode:standalone\r\n";
const ENTERPRISE: &str = "# Server\r\nredis_version:7.4.0\r\nredis_mode:standalone\r\n";
const KVROCKS: &str =
    "# Server\r\nversion:2.10.0\r\nkvrocks_version:2.10.0\r\nredis_version:4.0.0\r\nredis_mode:standalone\r\n";

/// `LEASEHOLD_KEYDB` may be the path of the real one, which no package has. `features` is in no other server's `INFO server`.
fn keydb(role: &str) -> Running {
    if let Some(program) = env::var_os("LEASEHOLD_KEYDB") {
        let is_replica = role != "master";
        let server = Server::builder().program(program).arg("--active-replica", if is_replica { "yes" } else { "no" });
        let server = server.start().unwrap();
        if is_replica {
            server.cli(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
        }
        return Proxy::start(server, |_| Fate::Passes).unwrap().into();
    }
    let fate = if role == "master" { as_keydb::<false> } else { as_keydb::<true> };
    Proxy::start(Server::start().unwrap(), fate).unwrap().into()
}

fn as_keydb<const REPLICA: bool>(words: &Words) -> Fate {
    if !is_info(words) {
        return Fate::Passes;
    }
    let server = "# Server\r\nredis_version:6.3.4\r\nredis_mode:standalone\r\nfeatures:cluster_mget\r\n";
    let role = if REPLICA { "active-replica" } else { "master" };
    match words.get(1) {
        Some(section) if section.eq_ignore_ascii_case(b"replication") => Fate::telling(&format!("role:{role}\r\n")),
        Some(_) => Fate::telling(server),
        None => Fate::telling(&format!("{server}\r\n# Replication\r\nrole:{role}\r\n")),
    }
}

/// It says so, and doesn't close the connection.
fn without_info() -> Running {
    let fate = |words: &Words| if is_info(words) { Fate::refusing("INFO") } else { Fate::Passes };
    Proxy::start(Server::start().unwrap(), fate).unwrap().into()
}

fn without_time() -> Running {
    Server::builder().refusing_time().start().unwrap().into()
}

/// Its `INFO` is that of a single server.
fn slots() -> Running {
    let fate = |words: &Words| if is_info(words) { Fate::telling(ENTERPRISE) } else { Fate::Passes };
    Proxy::start(Server::builder().start_enforcing_slots().unwrap(), fate).unwrap().into()
}

fn kvrocks() -> Running {
    let fate = |words: &Words| if is_info(words) { Fate::telling(KVROCKS) } else { Fate::Passes };
    Proxy::start(Server::start().unwrap(), fate).unwrap().into()
}

impl From<Server> for Running {
    fn from(server: Server) -> Self {
        Self { url: server.url(), server: server.address(), _keep: Box::new(server) }
    }
}

impl From<Proxied> for Running {
    fn from(proxied: Proxied) -> Self {
        let url = format!("redis://127.0.0.1:{}/", proxied.port);
        Self { url, server: proxied.server.address(), _keep: Box::new(proxied) }
    }
}

impl From<Proxy> for Running {
    fn from(proxy: Proxy) -> Self {
        Self { url: proxy.url(), server: proxy.server().address(), _keep: Box::new(proxy) }
    }
}

impl From<Lua54> for Running {
    fn from(server: Lua54) -> Self {
        Self { url: server.url(), server: server.address(), _keep: Box::new(server) }
    }
}

fn is_info(words: &Words) -> bool {
    is(words.first(), "INFO")
}
