//! The task of an endpoint: it keeps a connection for the commands, and makes a new one after a break when it is
//! needed.

use std::rc::Rc;
use std::time::Duration;

use futures_channel::mpsc::UnboundedReceiver;
use futures_util::StreamExt;

use crate::address::Address;
use crate::connection::Connection;
use crate::session::{self, Command};

/// Runs until nobody can call any more.
pub(crate) async fn run(
    address: Rc<Address>,
    limit: Duration,
    mut connection: Connection,
    mut commands: UnboundedReceiver<Command>,
) {
    let mut waiting = None;
    while session::run(connection, limit, waiting.take(), &mut commands).await {
        let Some((made, command)) = connect_for(&address, limit, &mut commands).await else { return };
        (connection, waiting) = (made, Some(command));
    }
}

/// Connects as soon as there is a command, and returns it along with the connection. None if there are no more
/// commands.
async fn connect_for(
    address: &Address,
    limit: Duration,
    commands: &mut UnboundedReceiver<Command>,
) -> Option<(Connection, Command)> {
    loop {
        let command = commands.next().await?;
        if command.caller.is_canceled() {
            continue;
        }
        // The limit counts from now, even if this command has waited before. So calls that come in the meantime wait no
        // longer than the limit.
        let failure = match Connection::open(address, limit).await {
            Ok(connection) => return Some((connection, command)),
            Err(failure) => failure,
        };
        command.answer(Err(failure.clone()));
        while let Ok(command) = commands.try_recv() {
            command.answer(Err(failure.clone()));
        }
    }
}
