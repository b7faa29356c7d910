//! The certificates for TLS that users give.

use std::fmt;

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates};

use crate::errors::Error;

/// Certificates and keys in PEM. Without any, the system's certificates are trusted.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// What to trust instead of the system's certificates.
    pub(crate) root: Option<Vec<u8>>,
    /// The client's certificate and its key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    /// The same address with these certificates. Without TLS they would protect nothing, so such an address is refused.
    pub(super) fn apply(&self, field: &'static str, info: ConnectionInfo) -> Result<ConnectionInfo, Error> {
        if self.root.is_none() && self.client.is_none() {
            return Ok(info);
        }
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            let problem = "is no address with TLS, but there are certificates: write it like rediss://127.0.0.1/";
            return Err(Error::invalid(field, problem));
        }
        let authority = TlsCertificates { client_tls: None, root_cert: self.root.clone() };
        // A text without a certificate would mean that none is trusted.
        if self.root.as_ref().is_some_and(|pem| !pem.windows(BEGIN.len()).any(|part| part == BEGIN)) {
            return Err(Error::invalid("root_certificates", "has no certificate in PEM"));
        }
        let mut client = Client::build_with_tls(info.clone(), authority.clone())
            .map_err(|error| Error::unusable_pem("root_certificates", &error))?;
        if let Some((client_cert, client_key)) = self.client.clone() {
            let both = TlsCertificates { client_tls: Some(ClientTlsConfig { client_cert, client_key }), ..authority };
            client = Client::build_with_tls(info, both)
                .map_err(|error| Error::unusable_pem("client_certificate", &error))?;
        }
        Ok(client.get_connection_info().clone())
    }
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Without the key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("root", &self.root.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}
