//! What the service answers if it can't do what a request asks for.

use std::fmt;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold::LossReason;

/// Why a request was refused.
#[derive(Debug)]
pub enum Refusal {
    /// No such account.
    Unknown,
    /// The account has less money than that.
    TooMuch,
    /// A later holder of the lock has claimed the row.
    Stale,
    /// The lease was lost during the work.
    Lost(LossReason),
    /// The lock is busy, the lock servers can't be reached, or this process is shutting down.
    Lock(leasehold::Error),
    /// The database failed.
    Database(sqlx::Error),
}

impl From<leasehold::Error> for Refusal {
    fn from(error: leasehold::Error) -> Self {
        Self::Lock(error)
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such account"),
            Self::TooMuch => f.write_str("the account has less than that"),
            Self::Stale => f.write_str("a later request has taken over"),
            Self::Lost(reason) => write!(f, "the lease was lost: {reason}"),
            Self::Lock(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::TooMuch => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Stale | Self::Lost(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Lock(error) if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
            // This process is shutting down, and another one can serve the request.
            Self::Lock(leasehold::Error::Closed) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Lock(_) | Self::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            eprintln!("{self}");
        }
        match status {
            StatusCode::SERVICE_UNAVAILABLE => (status, [(header::RETRY_AFTER, "1")], self.to_string()).into_response(),
            StatusCode::INTERNAL_SERVER_ERROR => status.into_response(),
            _ => (status, self.to_string()).into_response(),
        }
    }
}
