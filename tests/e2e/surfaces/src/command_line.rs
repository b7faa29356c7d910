use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::{Act, Kind, Step, Surface};

/// The command line. A lease is a process `exec`, whose command ends when its standard input does. A lease for adoption
/// is a token of `acquire`.
///
/// It has no reentrant locks, and no several names.
pub struct CommandLine {
    program: OsString,
    url: String,
    leases: RefCell<BTreeMap<String, Held>>,
}

enum Held {
    By(Box<Child>),
    Token(String),
}

/// Prints the fence when the lock is held, and holds it until its input ends.
const HOLD: [&str; 3] = ["sh", "-c", "echo $LEASEHOLD_FENCE; cat"];
/// The exit code for a lock that is busy.
const BUSY: i32 = 75;

impl CommandLine {
    /// Uses the server at this URL. `LEASEHOLD_SURFACES_CLI` is the path of the program.
    ///
    /// # Panics
    /// If the variable is not set.
    pub fn new(url: &str) -> Self {
        let program = env::var_os("LEASEHOLD_SURFACES_CLI").expect("`cargo xtask test` says where the program is");
        Self { program, url: url.to_owned(), leases: RefCell::default() }
    }

    /// Runs the program to its end. Returns what it printed as JSON, or the error.
    ///
    /// # Errors
    /// Its error, as JSON.
    ///
    /// # Panics
    /// If the program can't be started.
    pub async fn run(&self, arguments: &[&str]) -> Result<Value, Value> {
        let output = self.command(arguments).output().await.expect("the program starts");
        let printed = || serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        if output.status.success() { Ok(printed()) } else { Err(failed(&String::from_utf8_lossy(&output.stderr))) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env("REDIS_URL", &self.url).args(["--json", "--timeout", "60s"]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    async fn hold(&self, step: &Step<'_>, options: &[&str]) -> Value {
        let (limit, permits);
        let mut arguments = vec!["exec", "--ttl", "10m"];
        let mode = match step.kind() {
            Kind::Mutex => "exclusive",
            Kind::Read => {
                arguments.push("--read");
                "shared"
            }
            Kind::Semaphore { limit: of, permits: taken, per: None } => {
                (limit, permits) = (of.to_string(), taken.to_string());
                arguments.extend(["--permits", &permits, "--of", &limit]);
                "exclusive"
            }
            kind => panic!("the command line has no {kind:?}"),
        };
        arguments.extend(options.iter().copied().chain([step.text("lock"), "--"]).chain(HOLD));
        let mut child = self.command(&arguments).spawn().expect("the program starts");
        let mut output = BufReader::new(child.stdout.as_mut().expect("it is a pipe"));
        let mut fence = String::new();
        output.read_line(&mut fence).await.expect("it can be read");
        if let Ok(fence) = fence.trim().parse::<u64>() {
            self.leases.borrow_mut().insert(step.text("as").to_owned(), Held::By(Box::new(child)));
            return json!({ "mode": mode, "held": true, "fence": fence });
        }
        let status = child.wait().await.expect("it ends");
        let mut errors = String::new();
        let pipe = child.stderr.as_mut().expect("it is a pipe");
        pipe.read_to_string(&mut errors).await.expect("it can be read");
        let tries = step.act() == Act::Try;
        if tries && status.code() == Some(BUSY) { Value::Null } else { failed(&errors) }
    }

    async fn release(&self, step: &Step<'_>) -> Value {
        let held = self.leases.borrow_mut().remove(step.text("lease"));
        let Some(Held::By(mut child)) = held else { panic!("no process has the lease of {step:?}") };
        drop(child.stdin.take());
        match child.wait().await.expect("it ends").success() {
            true => json!("released"),
            false => json!("already-expired"),
        }
    }

    async fn try_perform(&self, step: &Step<'_>) -> Result<Value, Value> {
        let modes = |seen: &Value, what: &str| -> Vec<Value> {
            seen[what].as_array().into_iter().flatten().map(|one| one["mode"].clone()).collect()
        };
        Ok(match step.act() {
            // Each command connects by itself.
            Act::Open => json!("open"),
            Act::Acquire if step.0["for-adoption"] == true => {
                let lease = self.run(&["acquire", "--ttl", "10m", step.text("lock")]).await?;
                let token = lease["token"].as_str().expect("it has a token").to_owned();
                self.leases.borrow_mut().insert(step.text("as").to_owned(), Held::Token(token));
                json!({ "mode": "exclusive", "held": true, "fence": lease["fence"] })
            }
            Act::Acquire => self.hold(step, &[]).await,
            Act::Try => self.hold(step, &["--wait", "0"]).await,
            Act::Adopt => self.hold(step, &["--adopt", step.text("token")]).await,
            Act::Token => match &self.leases.borrow()[step.text("lease")] {
                Held::Token(token) => json!(token),
                Held::By(_) => panic!("a process has the lease of {step:?}"),
            },
            Act::Inspect => {
                let seen = self.run(&["inspect", step.text("lock")]).await?;
                json!({ "holders": modes(&seen, "holders"), "waiters": modes(&seen, "waiters") })
            }
            Act::ForceRelease => self.run(&["force-release", "--yes", step.text("lock")]).await?["holders"].clone(),
            Act::Release => self.release(step).await,
            act => panic!("the command line has no {act:?}"),
        })
    }
}

impl Surface for CommandLine {
    const NAME: &'static str = "command line";

    async fn perform(&self, step: &Step<'_>) -> Value {
        self.try_perform(step).await.unwrap_or_else(|error| error)
    }
}

/// The error in what the program said. Its last line is the error, after notes about what it waits for.
fn failed(errors: &str) -> Value {
    let said = errors.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let error = said.map(|line| line["error"].clone()).find(|error| !error.is_null()).unwrap_or_else(|| json!({}));
    json!({ "error": error["code"], "message": format!("{}", error["message"].as_str().unwrap_or(errors)) })
}
