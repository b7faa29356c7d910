use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::env;
use std::process::Stdio;
use std::rc::Rc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, oneshot};

use crate::{Step, Surface};

/// The npm package, in a separate process that reads one step in each line.
pub struct Node {
    input: Mutex<ChildStdin>,
    output: Mutex<Lines<BufReader<ChildStdout>>>,
    waiting: Rc<RefCell<BTreeMap<u64, oneshot::Sender<Value>>>>,
    last: Cell<u64>,
    _process: Child,
}

impl Node {
    /// Connects to the server at this URL, or to a quorum if there are several. `LEASEHOLD_SURFACES_NODE` is the path
    /// of the program: `player/main.mjs`, with the package installed beside it.
    ///
    /// # Panics
    /// If the process does not start.
    pub fn new(urls: &[String]) -> Self {
        let program = env::var_os("LEASEHOLD_SURFACES_NODE").expect("`cargo xtask test` says where the npm package is");
        let mut command = Command::new("node");
        command
            .arg(program)
            .env("REDIS_URLS", urls.join(","))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut process = command.spawn().expect("there is a `node`");
        let (input, output) = process.stdin.take().zip(process.stdout.take()).expect("both are pipes");
        Self {
            input: Mutex::new(input),
            output: Mutex::new(BufReader::new(output).lines()),
            waiting: Rc::default(),
            last: Cell::new(0),
            _process: process,
        }
    }

    /// One of the callers that wait for an outcome reads the outcomes of all of them.
    async fn outcome(&self, mut outcome: oneshot::Receiver<Value>) -> Value {
        loop {
            tokio::select! {
                told = &mut outcome => return told.expect("it is told once"),
                line = async { self.output.lock().await.next_line().await } => {
                    let line = line.expect("it can be read").expect("the process lives");
                    let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
                    let waiting = told["id"].as_u64().and_then(|id| self.waiting.borrow_mut().remove(&id));
                    if let Some(waiting) = waiting {
                        let _ = waiting.send(told["outcome"].clone());
                    }
                }
            }
        }
    }
}

impl Surface for Node {
    const NAME: &'static str = "npm package";

    async fn perform(&self, step: &Step<'_>) -> Value {
        let id = self.last.get() + 1;
        self.last.set(id);
        let (sender, outcome) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, sender);
        let line = format!("{}\n", json!({ "id": id, "step": step.0 }));
        self.input.lock().await.write_all(line.as_bytes()).await.expect("the process lives");
        self.outcome(outcome).await
    }
}
