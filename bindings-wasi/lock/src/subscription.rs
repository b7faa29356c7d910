//! A subscription to one of a manager's channels. It is made on demand, and reported only after the server has
//! acknowledged it.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use alloc::rc::Rc;

use leasehold_core::{Failure, Input, NodeId};
use wit_bindgen::StreamResult;

use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::shared::Shared;
use crate::wire;

/// How many messages to read at a time. A provider that always has more must not keep the other tasks from running.
const AT_A_TIME: usize = 16;

/// The only server there is.
pub(crate) const NODE: NodeId = NodeId(0);

/// Subscribes and passes messages on until the subscription ends. Returns why it ended, or why it can't be made.
pub(crate) async fn run(shared: Rc<Shared>, endpoint: Rc<Endpoint>, channel: Rc<str>) -> Failure {
    let mut messages = match endpoint.subscribe(String::from(&*channel)).await {
        Ok(messages) => messages,
        Err(failure) => return wire::failure(failure),
    };
    shared.tell(Input::Subscribed { node: NODE, channel: &channel });
    loop {
        let (result, batch) = messages.read(Vec::with_capacity(AT_A_TIME)).await;
        for payload in &batch {
            shared.tell(Input::Message { node: NODE, channel: &channel, payload });
        }
        if !matches!(result, StreamResult::Complete(_)) {
            return Failure::Interrupted("the stream of messages ended".to_owned());
        }
        wit_bindgen::yield_async().await;
    }
}
