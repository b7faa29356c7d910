//! What a command answers.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use leasehold_core::{Reply, Scalar};

/// A command's answer, as a script sees it: it can tell a status such as `OK` from a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A null reply.
    Nil,
    /// An integer.
    Int(i64),
    /// A bulk string.
    Text(Vec<u8>),
    /// A status, for example `OK`.
    Status(&'static str),
    /// A flat list.
    List(Vec<Scalar>),
}

impl Answer {
    pub(crate) fn texts(texts: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::List(texts.into_iter().map(Scalar::Text).collect())
    }

    pub(crate) fn optional(text: Option<Vec<u8>>) -> Self {
        text.map_or(Self::Nil, Self::Text)
    }

    pub(crate) const fn count(count: usize) -> Self {
        Self::Int(count as i64)
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::One(match answer {
            Answer::Nil => Scalar::Nil,
            Answer::Int(number) => Scalar::Int(number),
            Answer::Text(text) => Scalar::Text(text),
            Answer::Status(text) => Scalar::Text(text.into()),
            Answer::List(items) => return Self::List(items),
        })
    }
}

/// An error reply. Its text begins with the server's code, for example `WRONGTYPE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(Cow<'static, str>);

impl Refusal {
    pub(crate) const WRONG_TYPE: Self = Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const OUT_OF_MEMORY: Self = Self::new("OOM command not allowed when used memory > 'maxmemory'.");
    pub(crate) const NO_SCRIPT: Self = Self::new("NOSCRIPT No matching script. Please use EVAL.");
    pub(crate) const READ_ONLY: Self = Self::new("READONLY You can't write against a read only replica.");
    pub(crate) const TRY_AGAIN: Self = Self::new("TRYAGAIN Multiple keys request during rehashing of slot");
    pub(crate) const NON_LOCAL: Self = Self::new("ERR Script attempted to access a non local key in a cluster node");
    pub(crate) const NOT_AN_INTEGER: Self = Self::new("ERR value is not an integer or out of range");
    pub(crate) const NOT_A_FLOAT: Self = Self::new("ERR value is not a valid float");
    pub(crate) const SYNTAX: Self = Self::new("ERR syntax error");

    pub(crate) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// The text, which begins with the code.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Refusal {}

pub(crate) type Outcome = Result<Answer, Refusal>;
