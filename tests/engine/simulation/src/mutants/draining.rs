//! Mutants of a client that drains. Each is here with its changes.

use super::Mutant;

pub(super) const TABLE: &[Mutant] = &[
    engine! { "drain-grants" Closing "a client that drains grants no lease"
    "client/operations.rs": "if self.cx.draining && !self.is_owner("
        => "if self.cx.draining && !MUTANT && !self.is_owner(" },
    engine! { "drain-waits-on" Closing "waiting callers end when their client drains"
    "client/operations.rs": "while let Some((op, _)) = lock.queue.head() {"
        => "while let Some((op, _)) = lock.queue.head().filter(|_| cx.closed || !MUTANT) {" },
    engine! { "drain-lingers" Closing "leases that linger go back when their client drains"
    "lock/linger.rs": "!cx.draining" => "(!cx.draining || (MUTANT && !cx.closed))" },
    engine! { "drain-stops-renewing" Closing "held leases are renewed while their client drains"
    "lock/renew.rs": "        cx.listen();\n        self.send_renewal(cx);"
        => "        cx.listen();\n        if !(cx.draining && MUTANT) {\n            self.send_renewal(cx);\n        }" },
    engine! { "drain-without-end" Closing "a drain ends when its time is over"
    "client/operations.rs": "            OpKind::Drain => self.cx.complete("
        => "            OpKind::Drain if MUTANT => {}\n            OpKind::Drain => self.cx.complete(" },
    engine! { "drain-outlasts-leases" Closing "a drain ends when the last lease is given back"
    "session/mod.rs": "        self.end_drain();\n        Some(lease)"
        => "        if !MUTANT {\n            self.end_drain();\n        }\n        Some(lease)" },
    engine! { "quorum-drain-grants" Quorum "a quorum that drains grants no lease"
    "quorum/acquire.rs": "if self.cx.draining {" => "if self.cx.draining && !MUTANT {" },
    engine! { "quorum-drain-without-end" Quorum "a quorum's drain ends when its time is over" seed 6_729
    "quorum/acquire.rs": "            OpKind::Drain => self.cx.complete("
        => "            OpKind::Drain if MUTANT => {}\n            OpKind::Drain => self.cx.complete(" },
];
