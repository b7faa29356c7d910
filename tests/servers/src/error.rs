use std::fmt;
use std::io;

/// Why a server could not be found, started or asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No server program here, and none could be installed; the text says what to run.
    NotFound(String),
    /// The server ended or stayed silent; the text holds its log.
    NotStarted(String),
    /// The connection to the server, or a program beside it, failed.
    Io {
        /// What was being done.
        doing: String,
        /// What went wrong.
        source: io::Error,
    },
    /// The server's answer was an error.
    Refused(String),
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(text) | Self::NotStarted(text) => f.write_str(text),
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::Refused(text) => write!(f, "the server refused: {text}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
