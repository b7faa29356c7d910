use std::fmt;

/// An error message for the person at the terminal.
#[derive(Debug)]
pub struct Error(String);

pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// The error with this message.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<leasehold_servers::Error> for Error {
    fn from(error: leasehold_servers::Error) -> Self {
        Self(error.to_string())
    }
}
