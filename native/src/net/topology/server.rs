//! One server: its address, credentials and settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, ConnectionAddr, ConnectionInfo, RedisResult};

use super::checks::MemberCheck;
use crate::net::connection::{SharedConnection, shared};
#[cfg(feature = "without-scripts")]
use crate::net::transactions::WithoutScripts;

/// A server that the client can reconnect to.
#[derive(Clone)]
pub(crate) struct Server {
    pub(super) client: Client,
    pub(super) response_timeout: Duration,
    /// The checks to run when connecting, if it belongs to a quorum.
    pub(super) check: Option<MemberCheck>,
    /// It answers, but closes the connection at INFO.
    pub(super) closes_at_info: Arc<AtomicBool>,
    /// How often in a row it has closed a connection at SUBSCRIBE.
    pub(super) closed_at_subscribe: Arc<AtomicU32>,
    /// It refuses scripts, so the client runs them.
    #[cfg_attr(not(feature = "without-scripts"), expect(dead_code, reason = "it is always false then"))]
    refuses_scripts: bool,
}

impl Server {
    pub(super) fn new(info: ConnectionInfo, response_timeout: Duration) -> RedisResult<Self> {
        #[cfg(feature = "tls-rustls")]
        install_crypto_provider(&info);
        // Commands are small and sent one after the other. Nagle's algorithm would only delay them.
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        Ok(Self {
            client: Client::open(plain(info.set_tcp_settings(tcp)))?,
            response_timeout,
            check: None,
            closes_at_info: Arc::default(),
            closed_at_subscribe: Arc::default(),
            refuses_scripts: false,
        })
    }

    /// The same server, which refuses scripts if `refuses`.
    pub(super) fn refusing_scripts(self, refuses: bool) -> Self {
        Self { refuses_scripts: refuses, ..self }
    }

    /// Prepares a connection for the engine's commands.
    pub(super) fn share(&self, connection: MultiplexedConnection) -> SharedConnection {
        #[cfg(feature = "without-scripts")]
        if self.refuses_scripts {
            return std::sync::Arc::new(WithoutScripts::new(connection));
        }
        shared(connection)
    }

    /// The host and port, or the path of the socket.
    pub(crate) fn address(&self) -> String {
        self.connection_info().addr().to_string()
    }

    /// The URL without user, password and database.
    pub(super) fn url(&self) -> String {
        let place = |host: &str, port: &u16| {
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
        };
        match self.connection_info().addr() {
            ConnectionAddr::Tcp(host, port) => format!("redis://{}", place(host, port)),
            ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{}", place(host, port)),
            other => format!("unix:{other}"),
        }
    }

    /// The time limit for one answer, and for connecting with all its steps.
    pub(in crate::net) const fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    pub(super) fn connection_info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }

    /// Another server that is reached the same way: same credentials, TLS settings, database and checks.
    pub(super) fn with_address(&self, host: &str, port: u16) -> RedisResult<Self> {
        let info = self.connection_info().clone();
        let addr = match info.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Ok(Self { client: Client::open(info.set_addr(addr))?, closes_at_info: Arc::default(), ..self.clone() })
    }

    /// The same server as one of a quorum.
    pub(super) fn with_check(self, check: MemberCheck) -> Self {
        Self { check: Some(check), ..self }
    }
}

/// Leaves out `CLIENT SETINFO`, unless the user has chosen a name: a proxy that doesn't know the command closes the connection.
fn plain(info: ConnectionInfo) -> ConnectionInfo {
    let settings = info.redis_settings().clone();
    if settings.lib_name().is_some() { info } else { info.set_redis_settings(settings.set_skip_set_lib_name()) }
}

/// Installs `ring` as the rustls `CryptoProvider` if the program has installed none before its first TLS connection.
/// Without one, rustls panics.
#[cfg(feature = "tls-rustls")]
fn install_crypto_provider(info: &ConnectionInfo) {
    use rustls::crypto::{CryptoProvider, ring};
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) && CryptoProvider::get_default().is_none() {
        // Another thread may have installed one first.
        let _ = ring::default_provider().install_default();
    }
}
