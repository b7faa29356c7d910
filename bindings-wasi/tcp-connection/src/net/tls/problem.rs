//! What an error of rustls means, and what to do about it.

use rustls::{AlertDescription, CertificateError, Error};

use super::config::{CA, CERT, KEY};

/// Why there is no connection, in words for the user who configures it.
pub(super) fn describe(error: &Error) -> String {
    match remedy(error) {
        Some(remedy) => format!("{error}; {remedy}"),
        None => error.to_string(),
    }
}

fn remedy(error: &Error) -> Option<String> {
    match error {
        Error::InvalidCertificate(problem) => of_certificate(problem),
        // The first bytes are no record of TLS.
        Error::InvalidMessage(_) => Some(
            "the server doesn't answer in TLS: give the port on which it has TLS, or write `redis://` for a \
             connection without TLS"
                .to_owned(),
        ),
        Error::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
            Some(format!("if the server wants a client certificate, give it in `{CERT}` and `{KEY}`"))
        }
        _ => None,
    }
}

fn of_certificate(problem: &CertificateError) -> Option<String> {
    match problem {
        // The second one is another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Some(format!("if the server has a certificate authority of its own, give its certificate in `{CA}`"))
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some("write a host into the address that the certificate names".to_owned())
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            Some("renew the server's certificate, or set the clock of this machine".to_owned())
        }
        _ => None,
    }
}
