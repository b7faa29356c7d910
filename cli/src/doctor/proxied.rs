//! A proxy that closes the connection at commands that it doesn't know. Only locks can be checked behind it.

use std::collections::HashMap;

use leasehold::redis_1::redis::{self, RedisResult, Value};

use super::check::{Check, Verdict};
use super::{measures, services};
use crate::args::Servers;
use crate::keyspace::Spread;
use crate::servers::Node;

/// What such a proxy doesn't know, and every supported server knows.
const QUESTIONS: [&[&str]; 2] = [&["ACL", "WHOAMI"], &["INFO"]];

/// Whether the connection breaks at each question. Then the node has another connection.
pub(super) async fn is_proxied(node: &mut Node, servers: &Servers) -> bool {
    for words in QUESTIONS {
        let mut question = redis::cmd(words[0]);
        question.arg(&words[1..]);
        let answer: RedisResult<Value> = node.query(&question).await;
        let is_broken = answer.is_err_and(|error| error.is_connection_dropped());
        if !is_broken || servers.reconnect(node).await.is_err() {
            return false;
        }
    }
    true
}

/// What can be told without commands that a proxy may not know.
pub(super) async fn check(node: &mut Node, servers: &Servers) -> Vec<Check> {
    let finding =
        "the connection breaks at INFO and ACL, as behind a proxy that doesn't know them, so only locks are checked";
    let remedy = "give the doctor the URL of the server itself, too";
    let mut checks: Vec<_> = services::check(&node.address, &HashMap::new()).into_iter().collect();
    checks.push(Check::new("proxy", Verdict::Warning, finding, remedy));
    if servers.spread_on(node) != Spread::Cluster {
        checks.push(measures::fences(node, &servers.spread_on(node).fence("")).await);
    }
    checks
}
