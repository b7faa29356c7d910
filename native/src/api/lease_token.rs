//! The token with which another process can take over a lease.

use std::fmt;
use std::str::FromStr;

use crate::errors::Error;

/// The token of a lease: see [`Lease::token`](crate::Lease::token) and [`Lock::adopt`](crate::Lock::adopt).
///
/// Every process that has it can take the lease. Treat it as a secret. `Debug` doesn't show it. `Display` and
/// `AsRef<str>` give its text, and `parse` reads the text. With the feature `serde`, it is serialized as this text.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{LeaseToken, LockManager};
///
/// # #[cfg(feature = "testing")] {
/// # let server = leasehold::testing::Server::new();
/// # let (accepting, working) = (server.manager()?, server.manager()?);
/// let lease = accepting.mutex("invoice:42").renew(false).acquire().await?;
/// let text = lease.token()?.to_string();
///
/// // In the other process
/// let token: LeaseToken = text.parse()?;
/// let adopted = working.mutex("invoice:42").adopt(&token).await?;
/// # drop((lease, adopted)); }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LeaseToken(String);

impl LeaseToken {
    pub(super) fn of(token: &leasehold_core::LeaseToken) -> Self {
        Self(token.text())
    }
}

impl AsRef<str> for LeaseToken {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Fails with `invalid-option` and the field `token` for a text that is no token.
impl FromStr for LeaseToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        leasehold_core::LeaseToken::read(text)
            .map(|token| Self::of(&token))
            .map_err(|error| Error::from_engine(error, None, None))
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(..)")
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for LeaseToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for LeaseToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
