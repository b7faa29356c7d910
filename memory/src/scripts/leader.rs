//! Tells who leads an election. Writes nothing.
//!
//! Key: N. No arguments. Answers the server's µs, what is left of the leader's TTL, and `<fence> <value>` or an empty text.

use alloc::vec;
use alloc::vec::Vec;

use leasehold_core::Scalar;

use super::arguments::Arguments;
use super::call::Call;
use super::prelude::{NOT_AN_ELECTION, one_leader};
use crate::answer::{Answer, Outcome};

pub(crate) fn leader(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let [name] = *arguments.keys()?;
    let [] = *arguments.words()?;
    let leader = one_leader(call.hgetall(name)?).ok_or(NOT_AN_ELECTION)?;
    let said = leader.map_or_else(Vec::new, |(_, _, said)| said);
    Ok(Answer::List(vec![Scalar::Int(call.us), Scalar::Int(call.pttl(name)?), Scalar::Text(said)]))
}
