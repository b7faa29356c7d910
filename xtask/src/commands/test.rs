use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use leasehold_servers::{Server, Version, find, find_version};

use super::simulation::{self, Explore, Mutants, Simulate};
use super::{demo, examples, fuzz, playground, torture, wasm};
use crate::tools::background::Background;
use crate::tools::cargo::{Tally, cargo, root, run, run_counted, target};
use crate::tools::error::Result;
use crate::tools::node::{self, npm};
use crate::tools::steps::Steps;
use crate::tools::{component, package};

/// Run the tests, with everything they need: a real server, the npm package, simulated clients and every mutant
///
/// The last lines list what only --full runs.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Run every test: the component, failovers, every supported server version and JavaScript runtime
    #[arg(long)]
    full: bool,
}

pub(crate) fn run_all(options: &Options) -> Result {
    let mut steps = Steps::default();
    add_to(&mut steps, if options.full { Scope::Full } else { Scope::Quick });
    steps.finish()
}

/// How much to run. Each scope includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// What a contributor runs: 10 minutes in a fresh clone.
    Quick,
    /// What has to pass before a change goes in.
    Ci,
    /// What has to pass before a release.
    Full,
}

/// These tests depend on the server's version.
const ON_A_SERVER: [&str; 4] = ["leasehold", "leasehold-model", "leasehold-live", "leasehold-cli"];

/// Adds the tests, cheap ones first.
pub(crate) fn add_to(steps: &mut Steps, scope: Scope) {
    // Tests against servers mostly wait. Meanwhile the processor builds what comes later.
    let mut simulation_build =
        Background::start("a build of the simulation", &simulation::sim(&["test", "--no-run"])).ok();
    let mut package_build = package::wasm_beside()
        .and_then(|build| Background::start("a build of the npm package's WebAssembly", &build))
        .ok();
    // All packages at once: one by one, some dependencies would be built twice, with different features.
    steps.counted("Rust: unit, doc and live tests", || {
        let ours = [
            "leasehold-core",
            "leasehold-lua",
            "leasehold-memory",
            "leasehold",
            "leasehold-demo",
            "leasehold-docs",
            "leasehold-servers",
            "leasehold-examples",
            "leasehold-model",
            "leasehold-live",
            "leasehold-torture",
            "leasehold-cli",
            "leasehold-playground",
            "leasehold-fuzz",
            "leasehold-js",
            "leasehold-js-memory",
            "leasehold-tcp-connection",
            "xtask",
        ];
        with_server(find(), &ours, &[])
    });
    if scope == Scope::Full {
        for version in Version::ALL {
            steps.counted(version.name(), || with_server(find_version(version), &ON_A_SERVER, &[]));
            let name = format!("{}: failovers, moving slots", version.name());
            steps.counted(&name, || {
                with_server(find_version(version), &["leasehold-live", "leasehold-cli"], &["--ignored"])
            });
        }
    }
    steps.counted("simulation's own tests", || {
        let built = simulation_build.take().map_or(Ok(()), Background::wait);
        let (tally, outcome) = run_counted(simulation::sim(&["test", "--no-fail-fast"]).arg("--"));
        (tally, built.and(outcome))
    });
    steps.counted("explorer's own tests", || run_counted(&mut simulation::testing_the_explorer()));
    steps.step("every interleaving, as far as 20 seconds go", || simulation::explore(&Explore::briefly()));
    // From here on most steps wait for most of their time. What only computes runs beside them.
    let a_few_seeds = || {
        let command = simulation::simulating(&Simulate::of_this_commit(1_000))?;
        Background::start("the simulation", &command)
    };
    let (mut simulated, mut mutated, mut component_build) = (None, None, None);
    steps.counted("npm package", || {
        let built = package_build.take().map_or(Ok(()), Background::wait);
        if scope == Scope::Quick {
            simulated = a_few_seeds().ok();
        } else {
            let suite = component::linted(&component::SUITE);
            component_build = Background::start("a build of wasmtime, for the component's tests", &suite).ok();
        }
        let (tally, outcome) = npm_package(scope);
        (tally, built.and(outcome))
    });
    if scope == Scope::Quick {
        steps.leave_out("59,000 of the commit's 60,000 seeds, and the mutants (or: cargo xtask mutants)");
        steps.leave_out("the programs in examples/ (or: cargo xtask examples)");
        steps.leave_out(
            "the check that the engine needs no host (or: cargo xtask wasm), and of the package's types and exports",
        );
        steps.leave_out("the npm package in real projects: TypeScript, bundlers, CommonJS, processes in Rust and Node");
        steps.leave_out("the demo (or: cargo xtask demo)");
        steps.leave_out("the WASI component in wasmtime, beside the crate and the npm package");
    } else {
        steps.counted("examples", examples::run_all);
        steps.step("engine without a host", wasm::check);
        steps.counted("npm package in real projects", || npm_projects(scope == Scope::Full));
        steps.step("demo", || demo::run(&demo::Options::default()));
        steps.counted("component", || {
            component(component_build, || {
                mutated = Background::start("the mutants", &simulation::mutating(&Mutants::default())).ok();
            })
        });
    }
    if scope == Scope::Ci {
        steps.step("faults on real servers", || torture::run_built(&torture::Options::of_a_commit()));
        let topologies = ["leasehold-live", "--test", "topologies"];
        steps.counted("failovers, moving slots", || with_server(find(), &topologies, &["--ignored"]));
    }
    if scope == Scope::Quick {
        steps.step("simulation", || simulated.map_or_else(|| a_few_seeds()?.wait(), Background::wait));
    } else {
        steps.step("mutants", || mutated.map_or_else(|| simulation::mutants(&Mutants::default()), Background::wait));
        // The seeds take both cores for some minutes. Tests that watch the clock are over by now.
        let seeds = Simulate::of_this_commit(simulation::OF_A_COMMIT);
        steps.step("simulation", || simulation::simulate(&seeds));
    }
    if scope == Scope::Full {
        steps.counted("component in Node 26", component_in_node);
        steps.counted("playground in a browser", playground::try_in_browser);
        steps.step("ten minutes of faults on real servers", || torture::run_built(&torture::Options::of_a_release()));
        steps.step("fuzzing, ten minutes for each target", || fuzz::run_all(&fuzz::Options::all(10.0)));
    } else {
        steps.leave_out("failovers and moving cluster slots, with every supported version of Redis and Valkey");
        steps.leave_out("every interleaving with one fault (or: cargo xtask explore), and those with more faults");
        steps.leave_out(
            "new inputs for the fuzz targets, ten minutes for each (or: cargo xtask fuzz); all runs replay the corpus",
        );
        steps.leave_out("50,000 and 100,000 leases of one client");
        steps.leave_out("the npm package in Bun, Deno, workerd and other versions of Node");
        steps.leave_out("the component in Node 26");
        steps.leave_out("the playground in a browser");
        steps.leave_out(
            "ten minutes of faults on real servers, with processes in Rust and Node (or: cargo xtask torture)",
        );
    }
}

fn tests(packages: &[&str]) -> (Tally, Result) {
    run_counted(&mut cargo_test(packages))
}

fn with_server(
    program: std::result::Result<PathBuf, leasehold_servers::Error>,
    packages: &[&str],
    words: &[&str],
) -> (Tally, Result) {
    match program {
        Ok(program) => {
            println!("the server is {}", program.display());
            run_counted(cargo_test(packages).arg("--").args(words).env("LEASEHOLD_SERVER", program))
        }
        Err(error) => (Tally::default(), Err(error.into())),
    }
}

/// Makes the package, and runs the tests beside its sources.
fn npm_package(scope: Scope) -> (Tally, Result) {
    let checked = |tarball: PathBuf| if scope == Scope::Quick { Ok(()) } else { package::check(&tarball) };
    let ready = package::tarball().and_then(checked).and_then(|()| Ok(find()?));
    match ready {
        Ok(server) => {
            let mut command = npm(&node::package(), &["test", "--silent"]);
            if scope == Scope::Full {
                // For each of three properties. A file of tests may take ten minutes.
                command.env("LEASEHOLD_FUZZ_MS", "180000");
            }
            run_counted(command.env("LEASEHOLD_SERVER", server))
        }
        Err(error) => (Tally::default(), Err(error)),
    }
}

/// Builds the components, and runs them in a host against a server; then beside the crate and the npm package, which an earlier step has
/// made. `beside` is called when everything is built.
fn component(build: Option<Background>, beside: impl FnOnce()) -> (Tally, Result) {
    let built = build.map_or(Ok(()), Background::wait);
    // Built before the tests, which run them: beside the tests the compiler would take the time that those count with.
    let programs = component::linted(&["build", "--quiet", "--workspace", "--bins"]);
    let programs = Background::start("a build of the programs that use the component", &programs);
    let (units, outcome) = tests(&["leasehold-componentize", "leasehold-wasi"]);
    let ready = built.and(outcome).and_then(|()| component::all()).and_then(|lock| {
        let player = node::project(&root().join("tests/e2e/surfaces/player"), &package::place())?;
        programs?.wait()?;
        Ok((lock, player, find()?))
    });
    let (lock, player, server) = match ready {
        Ok(ready) => ready,
        Err(error) => return (units, Err(error)),
    };
    beside();
    // Nothing else in that workspace has tests, and each program more would be linked with wasmtime.
    let mut command = component::linted(&["test", "--quiet", "--workspace", "--test", "suite", "--no-fail-fast"]);
    command.env("LEASEHOLD_LOCK_WASM", lock).env("LEASEHOLD_SURFACES_NODE", player.join("main.mjs"));
    let (hosted, outcome) = run_counted(command.env("LEASEHOLD_SERVER", server));
    let mut tally = units;
    tally += hosted;
    (tally, outcome)
}

/// Has jco make JavaScript of the component, which the step before has built, and runs it with a connection in JavaScript: under a Node of
/// its own, because what it rests on (WebAssembly that can wait for promises) is in no older one by default.
fn component_in_node() -> (Tally, Result) {
    let ready = node::project_with(&root().join("tests/e2e/jco"), None).and_then(|project| {
        run(node::node(&project, &["transpile.mjs"]).arg(component::place("lock.wasm")))?;
        Ok((project, Server::start()?))
    });
    match ready {
        Ok((project, server)) => {
            let mut command = node::brought(&project, &["--test", "--test-reporter=spec", "locks.test.mjs"]);
            run_counted(command.env("REDIS_URL", server.url()))
        }
        Err(error) => (Tally::default(), Err(error)),
    }
}

/// Installs the tarball into projects, as users do, and runs their tests. The step before has made it.
fn npm_projects(full: bool) -> (Tally, Result) {
    let workers = [
        "build",
        "--package",
        "leasehold-examples",
        "--bin",
        "demo-worker",
        "--bin",
        "traced",
        "--package",
        "leasehold-live",
        "--bin",
        "live-worker",
    ];
    let ready = run(&mut cargo(&workers)).and_then(|()| Ok(find()?));
    match ready {
        Ok(server) => {
            let mut command = node::node(&root(), &["tests/e2e/node/run.mjs"]);
            command.arg(package::place()).args(full.then_some("--full"));
            command.env("LEASEHOLD_SERVER", server).env("LEASEHOLD_WORKERS", target().join("debug"));
            run_counted(&mut command)
        }
        Err(error) => (Tally::default(), Err(error)),
    }
}

/// Tests packages, or one test program of a package: `["leasehold-live", "--test", "topologies"]`.
fn cargo_test(packages: &[&str]) -> Command {
    let mut command = cargo(&["test", "--quiet", "--no-fail-fast"]);
    let (packages, one) =
        packages.split_at(packages.iter().position(|word| *word == "--test").unwrap_or(packages.len()));
    command.args(packages.iter().flat_map(|package| ["--package", package])).args(one);
    command
}
