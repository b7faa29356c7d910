use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::Error;

/// A temporary certificate for 127.0.0.1 and its key, valid for one day. Dropping it deletes both.
#[derive(Debug)]
pub struct Certificate {
    directory: TempDir,
}

impl Certificate {
    /// Makes a certificate with an RSA key, by `openssl`.
    ///
    /// # Errors
    /// If there is no `openssl`, or if it fails.
    pub fn make() -> Result<Self, Error> {
        let directory = tempfile::tempdir().map_err(Error::io("making a directory"))?;
        let made = Self { directory };
        let output = Command::new("openssl")
            .args(["req", "-x509", "-config", "/dev/null", "-nodes", "-days", "1"])
            .args(["-newkey", "rsa:2048"])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=CA:FALSE"])
            .arg("-keyout")
            .arg(made.key())
            .arg("-out")
            .arg(made.path())
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io("running openssl"))?;
        if output.status.success() {
            return Ok(made);
        }
        Err(Error::NotFound(format!("openssl failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
    }

    /// The path of the certificate, a PEM file.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("server.crt")
    }

    /// The path of the key, a PEM file.
    pub fn key(&self) -> PathBuf {
        self.directory.path().join("server.key")
    }
}
