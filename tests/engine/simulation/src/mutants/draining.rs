//! Mutants of a client that drains. Each is here with its changes.

use super::copy::Change;
use super::table::engine;
use super::{Mutant, Theme};

pub(super) const TABLE: &[Mutant] = &[
    engine("drain-grants", GRANTS, Theme::Closing, "a client that drains grants no lease"),
    engine("drain-waits-on", WAITS_ON, Theme::Closing, "waiting callers end when their client drains"),
    engine("drain-lingers", LINGERS, Theme::Closing, "leases that linger go back when their client drains"),
    engine("drain-stops-renewing", STOPS_RENEWING, Theme::Closing, "held leases are renewed while their client drains"),
    engine("drain-without-end", WITHOUT_END, Theme::Closing, "a drain ends when its time is over"),
    engine("drain-outlasts-leases", OUTLASTS_LEASES, Theme::Closing, "a drain ends when the last lease is given back"),
    engine("quorum-drain-grants", QUORUM_GRANTS, Theme::Quorum, "a quorum that drains grants no lease"),
    engine(
        "quorum-drain-without-end",
        QUORUM_WITHOUT_END,
        Theme::Quorum,
        "a quorum's drain ends when its time is over",
    ),
];

const GRANTS: &[Change] = &[Change {
    file: "client/operations.rs",
    find: "if self.cx.draining && !self.is_owner(",
    put: "if self.cx.draining && !MUTANT && !self.is_owner(",
}];
const WAITS_ON: &[Change] = &[Change {
    file: "client/operations.rs",
    find: "while let Some((op, _)) = lock.queue.head() {",
    put: "while let Some((op, _)) = lock.queue.head().filter(|_| cx.closed || !MUTANT) {",
}];
const LINGERS: &[Change] =
    &[Change { file: "lock/linger.rs", find: "!cx.draining", put: "(!cx.draining || (MUTANT && !cx.closed))" }];
const STOPS_RENEWING: &[Change] = &[Change {
    file: "lock/renew.rs",
    find: "        cx.listen();\n        self.send_renewal(cx);",
    put: "        cx.listen();\n        if !(cx.draining && MUTANT) {\n            self.send_renewal(cx);\n        }",
}];
const WITHOUT_END: &[Change] = &[Change {
    file: "client/operations.rs",
    find: "            OpKind::Drain => self.cx.complete(",
    put: "            OpKind::Drain if MUTANT => {}\n            OpKind::Drain => self.cx.complete(",
}];
const OUTLASTS_LEASES: &[Change] = &[Change {
    file: "session/mod.rs",
    find: "        self.end_drain();\n        Some(lease)",
    put: "        if !MUTANT {\n            self.end_drain();\n        }\n        Some(lease)",
}];
const QUORUM_GRANTS: &[Change] =
    &[Change { file: "quorum/acquire.rs", find: "if self.cx.draining {", put: "if self.cx.draining && !MUTANT {" }];
const QUORUM_WITHOUT_END: &[Change] = &[Change {
    file: "quorum/acquire.rs",
    find: "            OpKind::Drain => self.cx.complete(",
    put: "            OpKind::Drain if MUTANT => {}\n            OpKind::Drain => self.cx.complete(",
}];
