//! One scenario on every surface: equal outcomes, and equal commands at the server.

mod commands;

use std::cell::Cell;
use std::time::Duration;

use commands::Monitor;
use leasehold_component_tests::with_component;
use leasehold_servers::Server;
use leasehold_surfaces::{Component, Native, Node, Step, Surface};
use leasehold_wasmtime_host::RedisProvider;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(15);

/// What the scenario was on one surface.
struct Played {
    outcomes: Vec<Value>,
    commands: Vec<String>,
}

struct Stage<'a, S> {
    surface: &'a S,
    server: &'a Server,
    greatest: Cell<u64>,
}

impl<S: Surface> Stage<'_, S> {
    /// Plays a scenario, and compares each outcome with what it says.
    async fn play(&self, steps: &[Value]) -> Vec<Value> {
        let mut outcomes = Vec::new();
        for step in steps {
            if let Some(words) = step["server"].as_array() {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                self.server.cli(&words).unwrap();
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
            let asked = Step(step);
            let outcome = async { tokio::join!(self.surface.perform(&asked), meanwhile) };
            let (mut outcome, meanwhile) = tokio::time::timeout(PATIENCE, outcome)
                .await
                .unwrap_or_else(|_| panic!("{}: {step} does not end", S::NAME));
            self.judge_fence(&mut outcome);
            assert_eq!(outcome, step["is"], "{}: {step}", S::NAME);
            outcomes.extend(meanwhile);
            outcomes.push(outcome);
        }
        outcomes
    }

    async fn until_queued(&self, lock: &str, step: &Value) {
        let Some(count) = step["until-queued"].as_i64() else { return };
        let queue = format!("leasehold:{{{lock}}}:queue");
        while self.server.cli(&["ZCARD", &queue]).unwrap().integer() != Some(count) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Fences differ from run to run; that they rise does not. Readers among themselves have no order.
    fn judge_fence(&self, outcome: &mut Value) {
        let Some(fence) = outcome["fence"].as_u64() else { return };
        let greatest = self.greatest.get();
        self.greatest.set(greatest.max(fence));
        if outcome["mode"] == "shared" {
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

/// On a server that has seen nothing before.
async fn played<S: Surface>(server: &Server, surface: &S) -> Played {
    let scenario = include_str!("../scenario.json");
    let scenario: Value = serde_json::from_str(scenario).unwrap();
    let stage = Stage { surface, server, greatest: Cell::new(0) };
    stage.play(scenario["before"].as_array().unwrap()).await;
    while server.cli(&["PUBSUB", "CHANNELS", "leasehold:*"]).unwrap().list().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let monitor = Monitor::start(server);
    let outcomes = stage.play(scenario["steps"].as_array().unwrap()).await;
    Played { outcomes, commands: monitor.finish(server) }
}

#[tokio::test]
async fn every_surface_answers_the_same_and_sends_the_same_commands() {
    let server = Server::start().unwrap();
    let native = played(&server, &Native::new(&server.url())).await;
    assert!(native.outcomes.len() > 30 && native.commands.len() > 25, "{:?}", native.commands);

    let server = Server::start().unwrap();
    let node = played(&server, &Node::new(&server.url())).await;
    same("npm package", &node, &native);

    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let component = played(&server, &Component::new(&server.url(), locks)).await;
        same("component", &component, &native);
    });
    work.await.unwrap();
}

fn same(name: &str, found: &Played, native: &Played) {
    assert_eq!(found.outcomes, native.outcomes, "{name}");
    let differs = found.commands.iter().zip(&native.commands).position(|(found, native)| found != native);
    if let Some(at) = differs {
        let near = at.saturating_sub(2)..at + 3;
        let of = |played: &Played| played.commands.get(near.clone()).unwrap_or_default().join("\n  ");
        panic!("{name}, command {at}:\n  {}\nbut the crate:\n  {}", of(found), of(native));
    }
    assert_eq!(found.commands.len(), native.commands.len(), "{name}: {:?}", found.commands);
}
