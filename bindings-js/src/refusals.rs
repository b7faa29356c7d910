//! Writes what servers' errors mean to the engine, so that a test of `ts/client/refusals.ts` can compare it with what they
//! mean to the driver.

use leasehold_core::Duration;
use std::fmt::Write;

use leasehold_core::{BROKE, CROSS_SLOT, Error, Failure, NO_RIGHT, NOT_READY, REFUSES_INFO, UNREACHED, refuses_info};

use crate::generated::{HEADER, check};

/// Errors that begin with no code of a list, or that only look like one that does.
const OTHERS: [&str; 20] = [
    "ERR max number of clients reached",
    "ERR unknown command 'EVAL'",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "ERR Error running script (call to f_1): @user_script:1: WRONGTYPE Operation against a key",
    "BADFENCE leasehold:fence holds no fence of ours",
    "-BADFENCE",
    "ERR it says BADFENCE there",
    "ERR Script attempted to access a non local key in a cluster node",
    "ERR DB index is out of range",
    "ERR LOADING",
    "NOREPLICASX Not enough good replicas to write.",
    "the server is BUSY ",
    "MOVED 3999 127.0.0.1:6381",
    "ASK 3999 127.0.0.1:6381",
    "NOCLOCK ERR Unknown Redis command called from script",
    "NOCLOCK The user executing the script can't run this command or subcommand",
    "NOCLOCK ERR ACL failure in script: User app has no permissions to run the 'pexpiretime' command",
    "ERR ACL failure in script: No permissions to access a key script: on @user_script:1.",
    "",
];

#[test]
fn the_package_knows_what_a_servers_error_means() {
    let mut module = HEADER.to_owned();
    module += "\n/** Errors of servers, with what they mean to the engine, and whether they say that a server hides its `INFO`. */\n";
    module += "export const REFUSALS: readonly (readonly [text: string, meaning: string, hidesInfo: boolean])[] = [\n";
    for text in texts() {
        let _ = writeln!(module, "  [{}, '{}', {}],", quoted(&text), meaning(&text), refuses_info(&text));
    }
    module += "];\n";
    check("ts/testing/refusals.generated.ts", &module);
}

/// Every code of a server that is not ready, and every word of a missing right, in the forms in which servers send them.
fn texts() -> Vec<String> {
    let script = "ERR Error running script (call to f_1): @user_script:1:";
    let codes = NOT_READY.iter().flat_map(|code| {
        [
            format!("{code} some text"),
            format!("-{code} some text"),
            (*code).to_owned(),
            format!("{script} -{code} some text"),
        ]
    });
    let rights = NO_RIGHT.iter().flat_map(|words| [format!("{words} some text"), format!("ERR it says {words} there")]);
    let hidden = REFUSES_INFO.iter().map(|words| format!("ERR {}", words.to_uppercase()));
    let slots = CROSS_SLOT.iter().map(|words| format!("ERR it says {words} there"));
    let proxies = UNREACHED.iter().chain(&BROKE).map(|words| format!("it says {}", words.trim_end()));
    codes.chain(rights).chain(hidden).chain(slots).chain(proxies).chain(OTHERS.map(str::to_owned)).collect()
}

fn meaning(text: &str) -> &'static str {
    match Error::of_connecting(Failure::Refused(text.to_owned()), Duration::ZERO) {
        Error::Unreachable { cause: Some(Failure::Unavailable(_)), .. } => "not-ready",
        Error::Unreachable { cause: Some(Failure::Interrupted(_)), .. } => "interrupted",
        error => error.code(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains('\'') { format!("\"{text}\"") } else { format!("'{text}'") }
}
