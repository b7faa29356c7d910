//! Cancellation tokens that are cancelled when a lease ends.

use tokio_util::sync::CancellationToken;

use super::election::Term;
use super::lease::Lease;

impl Lease {
    /// A token that is cancelled when the lease ends: when it is lost (see [`lost`](Self::lost)), when its last hold is released,
    /// dropped or [detached](Self::detach), and when the manager closes. Give it to tasks that may work only while you hold the
    /// lock. If the lease has ended, the token is cancelled already.
    ///
    /// Each call returns a token of its own. If you cancel it, no other token is cancelled, and the lease is not released.
    ///
    /// After a pause of the process, a task may run before the driver has found that the lease is over. So
    /// [send the fence](Self::fence) with every write.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// # let locks = leasehold::LockManager::in_memory()?;
    /// let lease = locks.mutex("report").acquire().await?;
    /// let token = lease.cancellation_token();
    /// let helper = tokio::spawn(async move {
    ///     // Ends at its next `await` when the lease ends.
    ///     token.run_until_cancelled(tokio::time::sleep(Duration::from_secs(3600))).await
    /// });
    /// lease.release().await?;
    /// assert_eq!(helper.await.ok(), Some(None));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "testing"))]
    /// # fn main() {}
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "cancellation-token")))]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.ending()
    }
}

impl Term {
    /// A token that is cancelled when the term ends: see [`Lease::cancellation_token`]. Give it to the leader's work.
    #[cfg_attr(docsrs, doc(cfg(feature = "cancellation-token")))]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.lease().ending()
    }
}
