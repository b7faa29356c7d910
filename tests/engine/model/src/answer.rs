//! The result of a command inside the model.

use std::borrow::Cow;

/// A command's answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    Status(&'static str),
    List(Vec<Vec<u8>>),
}

/// A command's error reply, beginning with its code.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal(pub(crate) Cow<'static, str>);

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
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

pub(crate) type Outcome = Result<Answer, Refusal>;
