//! Every kind of lock once, on every emulation, from every surface.

use std::panic::AssertUnwindSafe;
use std::slice::from_ref;
use std::time::Instant;

use futures_util::FutureExt;
use leasehold_component_tests::{tcp_component, with_tcp_component};
use leasehold_servers::{Fate, Proxy, Server};
use leasehold_surfaces::{CommandLine, Component, Native, Node, Step, Surface};
use leasehold_wasmtime_host::Locks;
use serde_json::{Value, json};

use super::proxies::{Proxied, start_envoy, start_twemproxy};
use super::{ALL, Emulation, ONLY_LOCKS, Outcome, Running};
use crate::play::Stage;

const SCENARIO: &str = include_str!("../../smoke.json");

/// The steps that open the two clients.
fn opening(options: &str) -> Vec<Value> {
    let options: Value = serde_json::from_str(options).unwrap();
    let open = |client: &str| {
        // Clients that get no messages ask the server again three times in each window.
        let mut step = json!({ "do": "open", "client": client, "claim-window": 1_000, "is": "open" });
        step.as_object_mut().unwrap().extend(options.as_object().cloned().unwrap());
        step
    };
    vec![open("a"), open("b")]
}

/// Plays the scenario, or sees that the surface is refused. Returns what a report says.
async fn play<S: Surface>(emulation: &Emulation, running: &Running, surface: &S) -> String {
    match emulation.outcome {
        Outcome::Works => {
            let scenario: Value = serde_json::from_str(SCENARIO).unwrap();
            let stage = Stage::new(surface, running.server);
            stage.play(&opening(emulation.options)).await;
            let mut played = Vec::new();
            for kind in scenario["kinds"].as_array().unwrap() {
                if !kind["without"].as_array().into_iter().flatten().any(|name| name == S::NAME) {
                    stage.play(kind["steps"].as_array().unwrap()).await;
                    played.push(kind["kind"].as_str().unwrap());
                }
            }
            format!("passed: {}", played.join(", "))
        }
        Outcome::Refused(words) => {
            // Some surfaces ask the server when they open, and others with the first command.
            let acquire = json!({ "do": "try", "client": "a", "lock": "job", "as": "none" });
            let opened = surface.perform(&Step(&opening(emulation.options)[0])).await;
            let refused = if opened == "open" { surface.perform(&Step(&acquire)).await } else { opened };
            assert_eq!(refused["error"], "unsupported", "{}, {}: {refused}", emulation.name, S::NAME);
            let message = refused["message"].as_str().unwrap_or_default();
            assert!(message.contains(words), "{}, {}: {message}", emulation.name, S::NAME);
            format!("refused: {message}")
        }
    }
}

/// What one surface does. A panic is the outcome of this surface alone.
async fn tried<S: Surface>(emulation: &Emulation, played: impl Future<Output = String>) -> Result<String, String> {
    let row = |outcome: &str| format!("{} ({:?}), {}: {outcome}", emulation.name, emulation.is, S::NAME);
    match AssertUnwindSafe(played).catch_unwind().await {
        Ok(outcome) => Ok(row(&outcome)),
        Err(_) => Err(row("FAILED, as is said above")),
    }
}

/// Each surface has a server of its own.
async fn smoke(emulation: &Emulation) -> [Result<String, String>; 4] {
    // Before the surfaces, because a start blocks this thread.
    let [a, b, c, d] = [(); 4].map(|()| (emulation.start)());
    let native = Native::new(from_ref(&a.url));
    let node = Node::new(from_ref(&b.url));
    let command_line = CommandLine::new(&c.url);
    let component = async {
        let work = async |locks: Locks<'_>| play(emulation, &d, &Component::new(from_ref(&d.url), locks)).await;
        with_tcp_component(work).await.unwrap()
    };
    let (native, node, command_line, component) = tokio::join!(
        tried::<Native>(emulation, play(emulation, &a, &native)),
        tried::<Node>(emulation, play(emulation, &b, &node)),
        tried::<CommandLine>(emulation, play(emulation, &c, &command_line)),
        tried::<Component>(emulation, component),
    );
    [native, node, command_line, component]
}

#[tokio::test]
async fn every_kind_works_on_every_emulation_from_every_surface() {
    // Compiling it blocks this thread.
    tcp_component();
    let mut failed = false;
    for emulation in ALL {
        let begun = Instant::now();
        let rows = smoke(emulation).await;
        println!("{}: {:.1} s", emulation.name, begun.elapsed().as_secs_f64());
        for row in rows {
            failed |= row.is_err();
            println!("{}", row.unwrap_or_else(|row| row));
        }
    }
    assert!(!failed, "the rows are above");
}

/// Plays the first kinds on a proxy that closes the connection at some commands, and counts how often it was asked.
async fn asked_of<S: Surface>(proxy: &Proxy, surface: &S) {
    let scenario: Value = serde_json::from_str(SCENARIO).unwrap();
    let stage = Stage::new(surface, proxy.server().address());
    stage.play(&opening(ONLY_LOCKS)).await;
    for kind in scenario["kinds"].as_array().unwrap().iter().take(1).cycle().take(4) {
        stage.play(kind["steps"].as_array().unwrap()).await;
    }
    // Two clients.
    for (command, most) in [("INFO", 2 * 5), ("SUBSCRIBE", 2 * 3), ("CLIENT", 0)] {
        assert!(proxy.asked(command) <= most, "{}: {} times {command}", S::NAME, proxy.asked(command));
    }
}

#[tokio::test]
async fn a_proxy_that_closes_the_connection_at_a_command_is_asked_a_few_times() {
    tcp_component();
    let start = || Proxy::start(Server::start().unwrap(), Fate::as_of_twemproxy).unwrap();
    let proxies = [start(), start(), start()];
    asked_of(&proxies[0], &Native::new(&[proxies[0].url()])).await;
    asked_of(&proxies[1], &Node::new(&[proxies[1].url()])).await;
    let work = async |locks: Locks<'_>| asked_of(&proxies[2], &Component::new(&[proxies[2].url()], locks)).await;
    with_tcp_component(work).await.unwrap();
}

/// Takes a lock while the server behind a proxy is down and after that.
async fn outlasts<S: Surface>(proxied: &mut Proxied, surface: &S) {
    for step in opening(ONLY_LOCKS) {
        assert_eq!(surface.perform(&Step(&step)).await, "open", "{}", S::NAME);
    }
    proxied.server.stop();
    let step = json!({ "do": "acquire", "client": "a", "lock": "job", "wait": 500, "as": "lease" });
    let refused = surface.perform(&Step(&step)).await;
    assert_eq!(refused["error"], "unreachable", "{}: {refused}", S::NAME);
    proxied.server.restart().unwrap();
    loop {
        let outcome = surface.perform(&Step(&step)).await;
        if outcome["held"] == true {
            break;
        }
        assert_eq!(outcome["error"], "unreachable", "{}: {outcome}", S::NAME);
    }
}

#[tokio::test]
async fn a_lock_is_unreachable_while_the_server_behind_a_proxy_is_down_and_is_taken_when_it_is_back() {
    tcp_component();
    for start in [start_twemproxy, start_envoy] {
        let url = |proxied: &Proxied| [format!("redis://127.0.0.1:{}/", proxied.port)];
        let [mut a, mut b, mut c] = [start(), start(), start()];
        let (native, node, of_component) = (Native::new(&url(&a)), Node::new(&url(&b)), url(&c));
        outlasts(&mut a, &native).await;
        outlasts(&mut b, &node).await;
        let work = async |locks: Locks<'_>| outlasts(&mut c, &Component::new(&of_component, locks)).await;
        with_tcp_component(work).await.unwrap();
    }
}
