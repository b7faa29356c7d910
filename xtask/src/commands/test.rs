use std::path::PathBuf;

use clap::Args;
use leasehold_servers::{Process, Server, Version, find, find_version, promtool};

use super::simulation::{self, Explore, Mutants, Simulate};
use super::{examples, fuzz, playground, timed, torture, wasm};
use crate::tools::background::Background;
use crate::tools::cargo::{cargo, ourselves, root, run, target};
use crate::tools::error::{Error, Result};
use crate::tools::log::say;
use crate::tools::node;
use crate::tools::package::Effort;
use crate::tools::steps::{Steps, THREADS};
use crate::tools::workspace::{Tests, everything, programs, select, tested};
use crate::tools::{component, package};

/// Run the tests, with everything they need: a real server, the npm package, and simulated clients
///
/// Without --full and --timed, no test fails because the machine is slow or busy. The last lines list what this run
/// left out, what took longest, and what failed.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Run every test: the component, failovers, every supported server version and JavaScript runtime
    #[arg(long, conflicts_with = "timed")]
    full: bool,
    /// Run only the tests that measure time, load or fairness, one after the other, and the drills of `cargo xtask torture`.
    /// They need a quiet machine, and the languages of `cargo xtask interop`
    #[arg(long)]
    timed: bool,
    /// Run the tests beside four busy processes, to show that no test depends on a fast machine. Takes about four times
    /// as long
    #[arg(long, conflicts_with = "timed")]
    under_load: bool,
}

pub(crate) fn run_all(options: &Options) -> Result {
    let _load = options.under_load.then(load).transpose()?;
    let mut steps = Steps::default();
    if options.timed {
        timed::add_to(&mut steps)?;
    } else {
        add_to(&mut steps, if options.full { Scope::Full } else { Scope::Quick });
    }
    steps.finish()
}

/// Starts busy processes. They end when they are dropped.
fn load() -> Result<Vec<Process>> {
    const BUSY: usize = 4;
    say!("{BUSY} busy processes run beside the tests");
    (0..BUSY).map(|_| Ok(Process::spawn(&mut ourselves(&["busy"])?)?)).collect()
}

/// How much to run. Each scope includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// What a contributor runs: 8 minutes in a fresh clone.
    Quick,
    /// What has to pass before a change goes in.
    Ci,
    /// What has to pass before a release.
    Full,
}

/// The packages whose tests depend on the server's version. Their ignored tests need a cluster or a failover, which
/// takes seconds.
pub(crate) const ON_A_SERVER: [&str; 4] = ["leasehold", "leasehold-model", "leasehold-live", "leasehold-cli"];

/// What only `--full` runs.
const LEFT_OUT: [&str; 9] = [
    "the tests that measure time, load or fairness (or: cargo xtask test --timed)",
    "failovers and moving cluster slots, with every supported version of Redis and Valkey",
    "200 seeds of the simulation in Lua 5.4 (or: cargo xtask simulate --lua54)",
    "new inputs for the fuzz targets, ten minutes for each (or: cargo xtask fuzz); all runs replay the corpus",
    "the npm package in Bun, Deno, workerd and other versions of Node",
    "the component in Node 26",
    "the playground in a browser",
    "the web service in examples/service, with PostgreSQL (or: cargo xtask examples --service)",
    "ten minutes of faults on real servers, with processes in Rust and Node (or: cargo xtask torture)",
];

/// What `cargo xtask ci` and `cargo xtask test --full` run, but not `cargo xtask test`.
const LEFT_TO_CI: [&str; 8] = [
    "1,500,000 more states of the explorer (or all states: cargo xtask explore)",
    "1,500 of the commit's 2,000 seeds, and the mutants (or: cargo xtask mutants)",
    "the scripts in Lua 5.4, as on Dragonfly and Garnet (or: cargo xtask simulate --lua54)",
    "the programs in examples/ (or: cargo xtask examples)",
    "the checks of the engine without a host (or: cargo xtask wasm), and of the package's types and exports",
    "the npm package in real projects: TypeScript, bundlers, CommonJS, processes in Rust and Node, and the manual's alerts",
    "the demo (or: cargo xtask demo)",
    "the WASI component in wasmtime, beside the crate and the npm package",
];

/// Adds the tests, cheap ones first.
pub(crate) fn add_to(steps: &mut Steps, scope: Scope) {
    // Tests against servers mostly wait. Meanwhile the processor builds what comes later.
    let mut simulation_build = simulation::testing()
        .and_then(|mut tests| {
            tests.arg("--no-run");
            Background::start("a build of the simulation", tests)
        })
        .ok();
    let npm_tests = package::tests_beside(if scope == Scope::Quick { Effort::Quick } else { Effort::Full });
    let npm_tests = npm_tests.and_then(|mut tests| {
        if scope == Scope::Full {
            // For each of three properties.
            tests.env("LEASEHOLD_FUZZ_MS", "180000");
        }
        Background::start("the tests of the npm package", tests)
    });
    // All packages at once. One by one, some dependencies would be built twice, with different features.
    let together = || if scope == Scope::Quick { tested(Tests::Together) } else { everything() };
    steps.step("Rust: unit, doc and live tests", || on_a_server(find(), &together()?, Which::Quick));
    if scope == Scope::Full {
        for version in Version::ALL {
            let program = || find_version(version);
            let packages = ON_A_SERVER.map(str::to_owned);
            steps.step(version.name(), || on_a_server(program(), &packages, Which::Quick));
            let name = format!("{}: failovers, moving slots", version.name());
            steps.step(&name, || on_a_server(program(), &packages, Which::Ignored));
        }
    }
    steps.step("simulation and explorer: their own tests", || {
        let built = simulation_build.take().map_or(Ok(()), Background::wait);
        let outcome = run(simulation::testing()?.env(RUST_TEST_THREADS, THREADS.to_string()));
        built.and(outcome)
    });
    let states = if scope == Scope::Quick { 500_000 } else { 2_000_000 };
    steps.step("interleavings of messages, replies and timers", || simulation::explore(&Explore::within(states)));
    if scope > Scope::Quick {
        // Alone: later steps run the same program, built with Lua 5.1.
        steps.step("scripts in Lua 5.4", || simulation::in_lua54(scope == Scope::Full));
    }
    // From here on most steps wait for most of their time. What only computes runs beside them.
    let seeds = |seeds| Background::start("the simulation", simulation::simulating(&Simulate::of_this_commit(seeds))?);
    let (mut simulated, mut mutated, mut component_build) = (None, None, None);
    if scope == Scope::Quick {
        simulated = seeds(simulation::OF_A_TEST).ok();
    } else {
        let suite = component::linted(&component::SUITE);
        component_build = Background::start("a build of wasmtime, for the component's tests", suite).ok();
    }
    steps.step("npm package", || npm_tests?.wait());
    if scope > Scope::Quick {
        steps.step("npm package as users get it", || package::check(&package::tarball()?));
        steps.step("examples", || examples::run_all(programs()?));
        steps.step("engine without a host", wasm::check);
        steps.step("npm package in real projects", || npm_projects(scope == Scope::Full));
        steps.step("demo", || run(&mut ourselves(&["demo", "--node", "--beside-tests"])?));
        steps.step("component", || {
            component(component_build, || {
                mutated = Background::start("the mutants", simulation::mutating(&Mutants::of_a_test())).ok();
            })
        });
    }
    if scope == Scope::Ci {
        steps.step("faults on real servers", || torture::run_built(&torture::Options::of_a_commit()));
        // Of all packages, because a smaller selection would have other features, and be built again.
        steps.step("failovers, moving slots", || on_a_server(find(), &everything()?, Which::Ignored));
    }
    if scope > Scope::Quick {
        steps.step("mutants", || mutated.map_or_else(|| simulation::mutants(&Mutants::of_a_test()), Background::wait));
    }
    let of_this_run = if scope == Scope::Quick { simulation::OF_A_TEST } else { simulation::OF_A_COMMIT };
    steps.step("simulation", || simulated.map_or_else(|| seeds(of_this_run)?.wait(), Background::wait));
    if scope == Scope::Full {
        steps.step("component in Node 26", component_in_node);
        steps.step("playground in a browser", playground::try_in_browser);
        steps.step("web service with PostgreSQL", examples::service);
        steps.step("ten minutes of faults on real servers", || torture::run_built(&torture::Options::of_a_release()));
        steps.step("fuzzing, ten minutes for each target", || fuzz::run_all(&fuzz::Options::all(10.0)));
        if let Err(error) = timed::add_to(steps) {
            steps.step("tests that measure", || Err(error));
        }
    } else {
        let ci = if scope == Scope::Quick { &LEFT_TO_CI[..] } else { &[] };
        ci.iter().chain(&LEFT_OUT).for_each(|what| steps.leave_out(what));
    }
}

/// How many tests of a Rust program run at the same time.
const RUST_TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Which tests of a crate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Quick,
    /// Those that need seconds to set up.
    Ignored,
}

/// Runs the tests of these packages on this server.
fn on_a_server(
    program: std::result::Result<PathBuf, leasehold_servers::Error>,
    packages: &[String],
    which: Which,
) -> Result {
    let program = program?;
    say!("the server is {}", program.display());
    let mut command = cargo(&["test", "--no-fail-fast"]);
    select(&mut command, packages);
    if which == Which::Ignored {
        // Examples in docs that are ignored can't run.
        command.args(["--tests", "--", "--ignored"]);
    }
    run(command.env(RUST_TEST_THREADS, THREADS.to_string()).env("LEASEHOLD_SERVER", program))
}

/// Builds the components and runs them in a host: against a server, and beside the crate and the npm package. An
/// earlier step has made the npm package. `beside` is called when everything is built.
fn component(build: Option<Background>, beside: impl FnOnce()) -> Result {
    let built = build.map_or(Ok(()), Background::wait);
    let programs = component::linted(&["build", "--quiet", "--workspace", "--bins"]);
    let programs = Background::start("a build of the programs that use the component", programs);
    let units = tested(Tests::Component)?;
    let mut command = cargo(&["test", "--no-fail-fast"]);
    run(command.args(units.iter().flat_map(|package| ["--package", package])))?;
    component::tests_are_built();
    built?;
    let lock = component::all()?;
    let player = node::project(&root().join("tests/e2e/surfaces/player"), &package::place())?;
    programs?.wait()?;
    beside();
    // Nothing else in that workspace has tests, and linking each more program with wasmtime would take time.
    let mut command = component::linted(&["test", "--workspace", "--test", "suite", "--no-fail-fast"]);
    command.env("LEASEHOLD_LOCK_WASM", lock).env("LEASEHOLD_SURFACES_NODE", player.join("main.mjs"));
    // An earlier step has built it.
    command.env("LEASEHOLD_SURFACES_CLI", target().join("debug").join("leasehold"));
    run(command.env(RUST_TEST_THREADS, THREADS.to_string()).env("LEASEHOLD_SERVER", find()?))
}

/// Has jco make JavaScript of the component, which the step before has built, and runs it with a connection in JavaScript: under a Node of
/// its own, because what it rests on (WebAssembly that can wait for promises) is in no older one by default.
fn component_in_node() -> Result {
    let project = node::project_with(&root().join("tests/e2e/jco"), None)?;
    run(node::node(&project, &["transpile.mjs"]).arg(component::place("lock.wasm")))?;
    let server = Server::start()?;
    let mut command = node::brought(&project, &["--test", "--test-reporter=spec", "locks.test.mjs"]);
    run(command.env("REDIS_URL", server.url()))
}

/// Installs the tarball into projects, as users do, and runs their tests. The step before has made it.
fn npm_projects(full: bool) -> Result {
    run(&mut programs()?)?;
    let mut command = node::node(&root(), &["tests/e2e/node/run.mjs"]);
    command.arg(package::place()).args(full.then_some("--full"));
    command.env("LEASEHOLD_SERVER", find()?).env("LEASEHOLD_PROMTOOL", promtool()?);
    run(command.env("LEASEHOLD_WORKERS", target().join("debug")))
}

/// A process of `--under-load`. It uses the processor until it is killed.
pub(crate) fn busy() -> Result {
    let begin = std::time::Instant::now();
    // A day is longer than any run of the tests.
    while begin.elapsed().as_secs() < 86_400 {
        (0..1_000_000).for_each(|_| std::hint::spin_loop());
    }
    Err(Error::new("nothing stopped this busy process within a day"))
}
