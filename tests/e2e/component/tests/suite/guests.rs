//! Components that use locks, composed with the lock component and its connection.

use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_component_tests::{component_beside_lock, engine, lock_path};
use leasehold_servers::{Server, wasmtime};
use wasmtime::Store;
use wasmtime::component::{ComponentNamedList, Instance, Lift, Linker, Lower, ResourceTable};
use wasmtime_wasi::p3::bindings::Command as WasiCommand;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::common::*;

struct Guest {
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

fn linker() -> Linker<Guest> {
    let mut linker = Linker::new(engine());
    wasmtime_wasi::p3::add_to_linker(&mut linker).unwrap();
    linker
}

/// A host that allows the network.
fn store(url: &str) -> Store<Guest> {
    let mut wasi = WasiCtx::builder();
    wasi.inherit_network().allow_tcp(true).env("REDIS_URL", url);
    Store::new(engine(), Guest { wasi: wasi.build(), table: ResourceTable::new() })
}

/// Runs `examples/wasi/app`.
async fn run_job(url: &str) -> Result<(), ()> {
    let component = component_beside_lock("nightly-job.wasm");
    let mut store = store(url);
    let command = WasiCommand::instantiate_async(&mut store, &component, &linker()).await.unwrap();
    let run = store.run_concurrent(async move |accessor| command.wasi_cli_run().call_run(accessor).await);
    soon("the job is done", run).await.unwrap().unwrap()
}

/// Runs the guest until it has done its job. It has the default options, and on a slow machine the server may not
/// answer in time.
async fn job_is_done(url: &str) {
    for _ in 0..5 {
        if run_job(url).await.is_ok() {
            return;
        }
    }
    panic!("the job was not done");
}

/// The last fence that the server has given out.
fn last_fence(server: &Server) -> Option<u64> {
    server.cli(&["GET", "leasehold:fence"]).unwrap().text().and_then(|text| text.parse().ok())
}

#[tokio::test]
async fn an_application_component_does_its_job_under_the_lock_with_standard_wasi_only() {
    let server = Server::start().unwrap();
    let url = server.url();
    job_is_done(&url).await;
    let first = last_fence(&server).unwrap();
    assert!(!is_there(&server, "nightly-job"), "it has given the lock back");

    // Another client holds the lock, so the job waits.
    let native = leasehold::LockManager::builder();
    let native = native.response_timeout(Duration::from_secs(60)).connect(&url).await.unwrap();
    let lease = native.mutex("nightly-job").ttl(Duration::from_secs(3_600)).acquire().await.unwrap();
    let fence = lease.fence().get();
    assert!(fence > first);
    let releasing = async {
        until("the job waits", || waiters(&server, "nightly-job") == 1).await;
        lease.release().await.unwrap();
    };
    tokio::join!(job_is_done(&url), releasing);
    assert!(last_fence(&server).unwrap() > fence);
}

#[tokio::test]
async fn an_application_component_tells_when_there_is_no_server() {
    let mut server = Server::start().unwrap();
    server.stop();
    run_job(&server.url()).await.unwrap_err();
}

/// Runs the `wasmtime run` line of docs/edge.md in a shell, as users do, but with this server and with the component of
/// this build. Returns what it printed, and whether it succeeded.
fn run_documented(url: &str) -> (String, bool) {
    let documented = include_str!("../../../../../docs/edge.md").replace(" \\\n  ", " ");
    let line = documented.lines().find(|line| line.starts_with("wasmtime run ")).unwrap();
    let words = line.split(' ').map(|word| match word.split_once('=') {
        Some(("REDIS_URL", _)) => format!("REDIS_URL={url}"),
        _ => word.replace("target/wasi/", &format!("{}/", lock_path().parent().unwrap().display())),
    });
    let (program, path) = (wasmtime().unwrap(), env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", &words.collect::<Vec<_>>().join(" ")]);
    command.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}

#[test]
fn the_documented_wasmtime_command_does_the_job() {
    let server = Server::start().unwrap();
    let url = server.url();
    // The guest has the default options, and on a slow machine the server may not answer in time.
    let mut runs = (0..5).map(|_| run_documented(&url));
    let (said, succeeded) = runs.find(|(_, succeeded)| *succeeded).unwrap_or_default();
    let fence = last_fence(&server).unwrap();
    assert_eq!(said, format!("working with fence {fence}\ndone with fence {fence}\n"));
    assert!(succeeded);
    assert!(!is_there(&server, "nightly-job"));
    drop(server);
    let (said, succeeded) = run_documented(&url);
    assert!(!succeeded && said.contains("ConnectionRefused"), "{said}");
}

/// Runs a program of `examples/wasi/host` to its end, and returns what it printed.
fn run_host(name: &str, servers: &[Server]) -> String {
    let mut build = Command::new(env!("CARGO"));
    // The program is built with the whole workspace. Alone, it would build wasmtime again with other features.
    build.args(["build", "--quiet", "--workspace", "--bins"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(build.status().unwrap().success());
    let program = std::env::current_exe().unwrap().parent().unwrap().with_file_name(name);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut command = Command::new(program);
    command.arg(lock_path()).env("REDIS_URL", &urls[0]).env("REDIS_URLS", urls.join(","));
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The lines after `It prints:` in a program's header.
fn promised(source: &str) -> String {
    let promised = source.split("```").nth(1).unwrap().trim_start_matches("text\n");
    let lines = promised.lines().filter_map(|line| line.strip_prefix("//! ")).filter(|line| !line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_example_host_does_its_job_under_the_lock() {
    let server = Server::start().unwrap();
    let said = run_host("leasehold-wasmtime-host", std::slice::from_ref(&server));
    let (work, release) = said.split_once('\n').unwrap();
    let fence: u64 = work.strip_prefix("working with fence ").unwrap().parse().unwrap();
    assert!(fence > 0 && fence <= last_fence(&server).unwrap());
    assert_eq!(release, "released\n");
    assert!(!is_there(&server, "nightly-job"));
}

#[test]
fn the_example_of_the_kinds_prints_what_its_head_says() {
    let promised = promised(include_str!("../../../../../examples/wasi/host/src/bin/kinds.rs"));
    assert!(promised.contains("reentrant"));
    assert_eq!(run_host("kinds", &[Server::start().unwrap()]), promised);
}

#[test]
fn the_example_of_a_quorum_prints_what_its_head_says() {
    let promised = promised(include_str!("../../../../../examples/wasi/host/src/bin/quorum.rs"));
    assert!(promised.contains("majority"));
    assert_eq!(run_host("quorum", &[(); 3].map(|()| Server::start().unwrap())), promised);
}

/// Calls an export of `tests/e2e/component-caller`, and checks the server while the instance still exists.
async fn call<P>(server: &Server, export: &str, arguments: P, look: impl AsyncFnOnce())
where
    P: ComponentNamedList + Lower + Lift + Send + Sync + 'static,
{
    let component = component_beside_lock("caller.wasm");
    let mut store = store(&server.url());
    let instance: Instance = linker().instantiate_async(&mut store, &component).await.unwrap();
    let function = instance.get_typed_func::<P, (Result<(), String>,)>(&mut store, export).unwrap();
    let work = store.run_concurrent(async |accessor| {
        let (answer,) = soon(export, function.call_concurrent(accessor, arguments)).await.unwrap();
        answer.unwrap();
        look().await;
    });
    work.await.unwrap();
}

#[tokio::test]
async fn an_acquire_that_its_caller_cancels_leaves_the_queue_at_once() {
    let server = Server::start().unwrap();
    let native = leasehold::LockManager::builder();
    let native = native.response_timeout(Duration::from_secs(60)).connect(&server.url()).await.unwrap();
    // The TTL is so long that the lease needs no renewal while this thread compiles the component.
    let lease = native.mutex("job").ttl(Duration::from_secs(3_600)).acquire().await.unwrap();
    let arguments = (server.url(), "job".to_owned());
    call(&server, "cancel-acquire", arguments, async || {
        assert_eq!(waiters(&server, "job"), 0);
        assert!(lease.verify().await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_hold_that_its_caller_cancels_renews_no_more() {
    let server = Server::start().unwrap();
    let arguments = (server.url(), "job".to_owned());
    call(&server, "cancel-hold", arguments, async || {
        ends_unrenewed(&server, "job").await;
    })
    .await;
}

#[tokio::test]
async fn an_open_that_its_caller_cancels_leaves_no_connection() {
    let server = Server::start().unwrap();
    server.pause().unwrap();
    call(&server, "cancel-open", (server.url(),), async || {
        server.resume().unwrap();
        until("its connection is closed", || {
            let list = server.cli(&["CLIENT", "LIST"]).unwrap();
            list.text().is_some_and(|list| list.lines().count() == 1)
        })
        .await;
    })
    .await;
}
