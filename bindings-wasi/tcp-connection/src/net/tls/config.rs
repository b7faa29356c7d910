//! The configuration of TLS: who is trusted, and the client's own certificate. It comes from the environment, in variables
//! with the names that the command line `leasehold` uses. This component reads no files, so they have the PEM text itself.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, SignatureAlgorithm};

use crate::bindings::exports::leasehold::lock::connection::Failure;
use crate::bindings::wasi::cli::environment::get_environment;
use crate::bindings::wasi::clocks::system_clock;

/// The certificate authorities to trust. Without it, those that browsers trust.
pub(super) const CA: &str = "LEASEHOLD_TLS_CA";
/// The client's certificate, followed by those that lead to its authority.
pub(super) const CERT: &str = "LEASEHOLD_TLS_CERT";
/// The key of the client's certificate.
pub(super) const KEY: &str = "LEASEHOLD_TLS_KEY";

/// The configuration of this instance. All connections share it, so that a reconnect can resume a session. The environment
/// doesn't change.
pub(super) fn shared() -> Result<Arc<ClientConfig>, Failure> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG.get_or_init(|| Given::read().config().map(Arc::new)).clone().map_err(Failure::Unsupported)
}

/// What the environment gives.
#[derive(Default)]
struct Given {
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

impl Given {
    fn read() -> Self {
        let mut given = Self::default();
        // An empty variable is the same as none.
        for (name, value) in get_environment().into_iter().filter(|(_, value)| !value.is_empty()) {
            match name.as_str() {
                CA => given.ca = Some(value),
                CERT => given.cert = Some(value),
                KEY => given.key = Some(value),
                _ => {}
            }
        }
        given
    }

    fn config(self) -> Result<ClientConfig, String> {
        let provider = Arc::new(rustls_rustcrypto::provider());
        let builder = ClientConfig::builder_with_details(Arc::clone(&provider), Arc::new(SystemClock))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("can't set up TLS: {error}"))?
            .with_root_certificates(roots(self.ca)?);
        let (cert, key) = match (self.cert, self.key) {
            (None, None) => return Ok(builder.with_no_client_auth()),
            (Some(cert), Some(key)) => (cert, key),
            (Some(_), None) => return Err(format!("`{CERT}` is set without `{KEY}`: give both, or neither")),
            (None, Some(_)) => return Err(format!("`{KEY}` is set without `{CERT}`: give both, or neither")),
        };
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| not_pem(KEY, "private key", &error))?;
        let signing = provider.key_provider.load_private_key(key.clone_key());
        // See the security advisory RUSTSEC-2023-0071. It is about private keys only.
        if signing.is_ok_and(|key| key.algorithm() == SignatureAlgorithm::RSA) {
            return Err(format!(
                "`{KEY}` has an RSA key, and this component's RSA signatures leak it by their timing: make a client \
                 certificate with an ECDSA or Ed25519 key"
            ));
        }
        let problem = |error| format!("can't use the client certificate in `{CERT}` and `{KEY}`: {error}");
        builder.with_client_auth_cert(certificates(CERT, &cert)?, key).map_err(problem)
    }
}

fn roots(ca: Option<String>) -> Result<RootCertStore, String> {
    let Some(ca) = ca else { return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }) };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(CA, &ca)? {
        roots.add(certificate).map_err(|error| format!("a certificate in `{CA}` can't be used: {error}"))?;
    }
    Ok(roots)
}

/// The certificates in the variable of this name, at least one.
fn certificates(name: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| not_pem(name, "certificate", &error))?;
    if certificates.is_empty() {
        return Err(not_pem(name, "certificate", &rustls::pki_types::pem::Error::NoItemsFound));
    }
    Ok(certificates)
}

fn not_pem(name: &str, item: &str, error: &rustls::pki_types::pem::Error) -> String {
    format!(
        "`{name}` has no {item} in PEM: {error}; give the text that begins with `-----BEGIN`, because this component \
         reads no files"
    )
}

/// Certificates are checked against the host's clock.
#[derive(Debug)]
struct SystemClock;

impl TimeProvider for SystemClock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(system_clock::now().seconds).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}
