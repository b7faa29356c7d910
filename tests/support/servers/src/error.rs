use std::fmt;
use std::io;

/// Why a server could not be found, started or asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no server program and none could be installed. The text says what to run.
    NotFound(String),
    /// The server exited or did not answer. The text contains its log.
    NotStarted(String),
    /// The connection to the server, or another program, failed.
    Io {
        /// The action that failed.
        doing: String,
        /// The cause.
        source: io::Error,
    },
    /// The server answered with an error.
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
