//! TLS, with the feature `tls-rustls`.

use redis::{ConnectionAddr, ConnectionInfo};

/// rustls panics where nobody has chosen who computes, and that is the program's choice: only if it made none by the time of its first
/// connection over TLS, ring is taken.
pub(crate) fn prepare(info: &ConnectionInfo) {
    use rustls::crypto::{CryptoProvider, ring};
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) && CryptoProvider::get_default().is_none() {
        // Somebody else may have been faster.
        let _ = ring::default_provider().install_default();
    }
}
