//! What travels over the connection: commands, replies, messages, and the names of keys.

mod answer;
mod command;
mod failure;
mod message;
mod name;
mod reply;

pub(crate) use answer::{Answer, Status, fence, integer, natural, time_left};
pub(crate) use failure::{Failed, FailureClass, has, no_clock};
pub use failure::{NO_RIGHT, NOT_READY, is_cross_slot};
pub(crate) use message::{Granted, Message, Term};
pub(crate) use name::{FenceCounter, Name};
pub use name::{hash_slot, slot_tag};

pub use command::Command;
pub use reply::{Reply, Scalar};
