//! What to do about an error, in the words of the command line and of ACL rules.

use leasehold::redis_1::redis::{self, RedisError, RedisResult, Value};
use leasehold_core::{Failure as Refusal, Reply, Scalar, check_slots, is_cross_slot, slot_counters};

use crate::refusals::{DISABLED, Refused, answer, named_command, refused, refused_by};
use crate::report::Failure;
use crate::servers::Node;

/// Why a server refuses every write, by the code of its answer.
const BY_CODE: [(&str, &str); 5] = [
    ("OOM", MEMORY),
    ("NOREPLICAS", REPLICAS),
    ("MISCONF", "read the server's log; check the disk's space and rights"),
    ("READONLY", "connect to its primary, or use --sentinel, which follows the primary"),
    ("CLUSTERDOWN", "CLUSTER NODES says which servers have failed; each slot needs a primary"),
];
/// Why a server of a cluster does not run a command for a key.
const SLOTS: [&str; 2] = ["MOVED", "ASK"];

pub(super) const MEMORY: &str = "raise maxmemory, or free memory";
pub(super) const REPLICAS: &str = "start the replicas, or lower min-replicas-to-write";

/// What to do about a lock that this server did not grant.
pub(super) async fn remedy(failure: Failure, node: &mut Node, user: &str) -> String {
    let text = failure.message.as_str();
    if is_about_slots(text) {
        return slots(node, user).await;
    }
    if let Some(remedy) = for_every_write(text) {
        return remedy.to_owned();
    }
    match refused_by(text) {
        Some(Refused::Key) => keys(user),
        Some(Refused::Command) => match named_command(text) {
            Some(command) => format!("ACL SETUSER {user} +{command}"),
            None => "grant the rights that the other checks miss".to_owned(),
        },
        Some(Refused::Unknown) => DISABLED.to_owned(),
        _ => without_doctor(failure).remedy,
    }
}

/// What to do about a command that the server refuses: grant it, unless the address doesn't know it.
pub(super) fn granting(error: &RedisError, grant: &'static str) -> &'static str {
    if refused(error) == Some(Refused::Unknown) { DISABLED } else { grant }
}

/// What to do if this user may not write a key.
pub(super) fn keys(user: &str) -> String {
    format!(
        "if this user may lock other names, give them with --prefix or --name, such as --name 'invoice:*'; \
         otherwise: ACL SETUSER {user} '~leasehold:*' and a pattern for your names"
    )
}

/// What to do about a server that refuses every write, if this is its answer.
pub(super) fn for_every_write(text: &str) -> Option<&'static str> {
    BY_CODE.iter().find(|(code, _)| has(text, code)).map(|(_, remedy)| *remedy)
}

/// Whether a server answered that it does not have a key, or not all keys, of a command.
pub(super) fn is_about_slots(text: &str) -> bool {
    is_cross_slot(text) || SLOTS.iter().any(|code| has(text, code))
}

fn has(text: &str, code: &str) -> bool {
    text.split([' ', ':']).any(|word| word == code)
}

/// Whether this server of a cluster has only some of the slots. One address that enforces slots has them all.
pub(super) async fn is_one_of_several(node: &mut Node) -> bool {
    let mut answers = Vec::new();
    for counter in slot_counters() {
        let read: RedisResult<Value> = node.query(redis::cmd("GET").arg(counter)).await;
        // A value tells as much as none.
        answers.push(read.map(|_| Reply::One(Scalar::Nil)).map_err(|error| Refusal::Refused(answer(&error))));
    }
    check_slots(answers).is_err()
}

/// What to do about a server that belongs to a cluster, or enforces slots like one. With --cluster, a client sends CLUSTER SLOTS.
pub(super) async fn slots(node: &mut Node, user: &str) -> String {
    let mut query = redis::cmd("CLUSTER");
    query.arg("SLOTS");
    match node.query::<Value>(&query).await {
        Ok(_) => "the server belongs to a cluster: give --cluster".to_owned(),
        Err(error) if error.code() == Some("NOPERM") => {
            format!("the server belongs to a cluster: ACL SETUSER {user} '+cluster|slots', then give --cluster")
        }
        Err(error) if is_one_of_several(node).await => format!(
            "the server belongs to a cluster, and refuses CLUSTER SLOTS ({}): make it answer that, then give --cluster",
            answer(&error)
        ),
        Err(error) => format!(
            "this address enforces the slots of a cluster and refuses CLUSTER SLOTS ({}): give --cluster-slots",
            answer(&error)
        ),
    }
}

/// The same without the advice to run the doctor.
pub(super) fn without_doctor(failure: Failure) -> Failure {
    let remedy = failure.remedy.split(';').filter(|part| !part.contains("`leasehold doctor`"));
    Failure { remedy: remedy.collect::<Vec<_>>().join(";").trim().to_owned(), ..failure }
}
