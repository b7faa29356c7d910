//! What a label is, and the commands about it.

use alloc::string::String;

use crate::error::Error;
use crate::event::Inspection;
use crate::wire::Command;

/// The longest label, in bytes.
pub(super) const MOST_BYTES: usize = 128;

/// Checks a label: at most 128 bytes that fit on one line of a terminal.
///
/// # Errors
/// [`Error::InvalidOption`] with the field `label`.
pub fn check_label(label: &str) -> Result<(), Error> {
    let problem = if label.len() > MOST_BYTES {
        "is longer than 128 bytes: give a shorter one"
    } else if label.contains(char::is_control) {
        "has a control character, such as a line break: leave it out"
    } else {
        return Ok(());
    };
    Err(Error::invalid("label", problem))
}

/// The client's id in one of our tokens.
pub(super) fn client_of(token: &str) -> Option<&str> {
    let (client, _) = token.split_once(':').filter(|_| crate::client::is_token(token))?;
    Some(client)
}

/// Whether it is the id of a client.
pub(super) fn is_client(text: &str) -> bool {
    crate::client::is_token(&[text, ":0"].concat()) && !text.contains(':')
}

/// A command about a client's label, or a message to the client.
pub(super) fn command(name: &str, prefix: &str, client: &str, arguments: &[&[u8]]) -> Command {
    let mut words = Command::with_capacity(224, 5);
    words.push(name.as_bytes());
    words.push_parts(&[prefix, client]);
    arguments.iter().for_each(|word| words.push(word));
    words
}

/// Visits each token with its label.
pub(super) fn each(inspection: &mut Inspection, mut visit: impl FnMut(&str, &mut Option<String>)) {
    inspection.holders.iter_mut().for_each(|holder| visit(&holder.token, &mut holder.label));
    inspection.waiters.iter_mut().for_each(|waiter| visit(&waiter.token, &mut waiter.label));
}
