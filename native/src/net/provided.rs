//! A connection that the user provides.

use redis::PushInfo;
#[cfg(feature = "redis-1")]
use redis::aio::ConnectionLike;
use tokio::sync::mpsc::UnboundedReceiver;

use super::connection::SharedConnection;
#[cfg(feature = "redis-1")]
use super::connection::shared;
use super::origin::Origin;
use super::pushes::PushConnection;

/// A connection for commands, and its push messages if it has any.
pub(crate) struct Provided {
    connection: SharedConnection,
    pushes: Option<UnboundedReceiver<PushInfo>>,
}

impl Provided {
    #[cfg(feature = "redis-1")]
    pub(crate) fn new<C>(connection: C, pushes: Option<UnboundedReceiver<PushInfo>>) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self { connection: shared(connection), pushes }
    }

    /// The connection for commands, and where its messages come from.
    pub(crate) fn into_parts(self) -> (SharedConnection, Origin) {
        let Self { connection, pushes } = self;
        let origin = match pushes {
            Some(pushes) => Origin::Pushes(PushConnection { connection: connection.clone(), pushes }),
            None => Origin::Servers(None),
        };
        (connection, origin)
    }
}
