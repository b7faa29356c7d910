//! TLS, with the feature `tls-rustls`.

use redis::{ConnectionAddr, ConnectionInfo};

/// Installs `ring` as the rustls `CryptoProvider` if the program has installed none before its first TLS connection.
/// Without one, rustls panics.
pub(crate) fn prepare(info: &ConnectionInfo) {
    use rustls::crypto::{CryptoProvider, ring};
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) && CryptoProvider::get_default().is_none() {
        // Another thread may have installed one first.
        let _ = ring::default_provider().install_default();
    }
}
