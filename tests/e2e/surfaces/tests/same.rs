//! One scenario on every surface: the outcomes and the commands at the server must be equal.

use std::time::Duration;

use leasehold_component_tests::with_component;
use leasehold_servers::Server;
use leasehold_surfaces::{Component, Native, Node, Surface};
use leasehold_wasmtime_host::RedisProvider;
use serde_json::Value;

use crate::commands::Monitor;
use crate::play::Stage;

/// The result of the scenario on one surface.
struct Played {
    outcomes: Vec<Value>,
    commands: Vec<String>,
}

/// Plays the scenario on a fresh server.
async fn played<S: Surface>(server: &Server, surface: &S) -> Played {
    let scenario = include_str!("../scenario.json");
    let scenario: Value = serde_json::from_str(scenario).unwrap();
    let stage = Stage::new(surface, server.address());
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
    let native = played(&server, &Native::new(&[server.url()])).await;
    assert!(native.outcomes.len() > 30 && native.commands.len() > 25, "{:?}", native.commands);

    let server = Server::start().unwrap();
    let node = played(&server, &Node::new(&[server.url()])).await;
    same("npm package", &node, &native);

    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let component = played(&server, &Component::new(&[server.url()], locks)).await;
        same("component", &component, &native);
    });
    work.await.unwrap();
}

/// Compares the outcomes only. With several names or several servers, some commands are sent at the same moment and have
/// no fixed order.
async fn alike(scenario: &str, servers: usize) {
    let scenario: Value = serde_json::from_str(scenario).unwrap();
    let steps = scenario["steps"].as_array().unwrap();
    let start = || -> Vec<Server> { (0..servers).map(|_| Server::start().unwrap()).collect() };
    let urls = |servers: &[Server]| -> Vec<String> { servers.iter().map(Server::url).collect() };

    let servers = start();
    let native = Stage::new(&Native::new(&urls(&servers)), servers[0].address()).play(steps).await;
    let servers = start();
    assert_eq!(Stage::new(&Node::new(&urls(&servers)), servers[0].address()).play(steps).await, native);
    let servers = start();
    let work = with_component(RedisProvider, async |locks| {
        let component = Component::new(&urls(&servers), locks);
        assert_eq!(Stage::new(&component, servers[0].address()).play(steps).await, native);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn several_names_are_alike_on_every_surface() {
    alike(include_str!("../several.json"), 1).await;
}

#[tokio::test]
async fn a_quorum_is_alike_on_every_surface() {
    alike(include_str!("../quorum.json"), 3).await;
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
