//! Cancels the tokens of a lease that ends, whether it is lost or given back.

#[cfg(feature = "cancellation-token")]
use tokio_util::sync::CancellationToken;

/// Cancels its token when it is dropped.
#[cfg(feature = "cancellation-token")]
#[derive(Default)]
pub(super) struct Ending(CancellationToken);

/// Without the feature, there are no tokens.
#[cfg(not(feature = "cancellation-token"))]
pub(super) enum Ending {}

#[cfg(feature = "cancellation-token")]
impl Ending {
    /// A new token. Cancelling it cancels no other one.
    pub(super) fn token(&self) -> CancellationToken {
        self.0.child_token()
    }
}

#[cfg(feature = "cancellation-token")]
impl Drop for Ending {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
