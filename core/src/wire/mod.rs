//! What travels over the connection: commands, replies, messages, and the names of keys.

mod answer;
mod command;
mod failure;
mod message;
mod name;
mod reply;

pub(crate) use answer::{Answer, Status, fence, integer, natural, time_left};
pub use failure::{
    BAD_FENCE, BROKE, CROSS_SLOT, NO_CLOCK, NO_MORE_CLIENTS, NO_RIGHT, NOT_READY, SLOT_MOVES, SLOTS_OPTION, UNREACHED,
    WRONG_TYPE, is_cross_slot,
};
pub(crate) use failure::{Failed, FailureClass, has};
pub(crate) use message::{Granted, Message, Term};
pub(crate) use name::{FenceCounter, Name};
pub use name::{hash_slot, slot_tag};

pub use command::Command;
pub use reply::{Reply, Scalar};
