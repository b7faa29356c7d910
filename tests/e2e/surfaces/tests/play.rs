//! Plays a scenario on one surface.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use leasehold_servers::{Connection, Reply};
use leasehold_surfaces::{Step, Surface};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(15);

/// One surface, and where the server is that the scenario checks.
pub(crate) struct Stage<'a, S> {
    surface: &'a S,
    server: SocketAddr,
    greatest: Cell<u64>,
}

impl<'a, S: Surface> Stage<'a, S> {
    pub(crate) fn new(surface: &'a S, server: SocketAddr) -> Self {
        Self { surface, server, greatest: Cell::new(0) }
    }

    /// Plays a scenario, and compares each outcome with the expected one.
    pub(crate) async fn play(&self, steps: &[Value]) -> Vec<Value> {
        let mut outcomes = Vec::new();
        for step in steps {
            if let Some(words) = step["server"].as_array() {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                self.ask(&words);
                continue;
            }
            if let Some(lock) = step["queue"].as_str() {
                self.until_queued(lock, step).await;
                continue;
            }
            let meanwhile = async {
                let Some(then) = step["then"].as_array() else { return Vec::new() };
                self.until_queued(Step(step).text("lock"), step).await;
                Box::pin(self.play(then)).await
            };
            let mut asked = step.clone();
            if let Some(lease) = step["token-of"].as_str() {
                asked["token"] = self.surface.perform(&Step(&json!({ "do": "token", "lease": lease }))).await;
            }
            let asked = Step(&asked);
            let outcome = async { tokio::join!(self.outcome(&asked), meanwhile) };
            let (mut outcome, meanwhile) = tokio::time::timeout(PATIENCE, outcome)
                .await
                .unwrap_or_else(|_| panic!("{}: {step} does not end", S::NAME));
            self.judge_fence(&mut outcome, &step["is"]["fence"]);
            let message = outcome.as_object_mut().and_then(|outcome| outcome.shift_remove("message"));
            assert_eq!(outcome, step["is"], "{}: {step}: {}", S::NAME, message.unwrap_or_default());
            outcomes.extend(meanwhile);
            outcomes.push(outcome);
        }
        outcomes
    }

    /// The outcome of a step. If the servers of a lock that is held don't answer during the wait, the caller waits again.
    async fn outcome(&self, step: &Step<'_>) -> Value {
        loop {
            let outcome = self.surface.perform(step).await;
            if step.0["is"]["error"] != "busy" || outcome["error"] != "unreachable" {
                return outcome;
            }
        }
    }

    fn ask(&self, words: &[&str]) -> Reply {
        Connection::open(self.server, PATIENCE).and_then(|mut connection| connection.call(words)).unwrap()
    }

    async fn until_queued(&self, lock: &str, step: &Value) {
        let Some(count) = step["until-queued"].as_i64() else { return };
        let queue = format!("leasehold:{{{lock}}}:queue");
        while self.ask(&["ZCOUNT", &queue, "0", "+inf"]).integer() != Some(count) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Fences differ from run to run, but they always rise. Fences of readers have no order among themselves.
    fn judge_fence(&self, outcome: &mut Value, expected: &Value) {
        let Some(fence) = outcome["fence"].as_u64() else { return };
        let greatest = self.greatest.get();
        self.greatest.set(greatest.max(fence));
        if expected == "any" {
            outcome["fence"] = expected.clone();
        } else if outcome["mode"] == "shared" {
            outcome.as_object_mut().unwrap().shift_remove("fence");
        } else {
            outcome["fence"] = json!(match fence.cmp(&greatest) {
                std::cmp::Ordering::Greater => "greater",
                std::cmp::Ordering::Equal => "same",
                std::cmp::Ordering::Less => "less",
            });
        }
    }
}
