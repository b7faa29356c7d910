//! The processes that work, and what happens to them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold_servers::{Error, Process};

use crate::faults::{Fault, Step};
use crate::history::{Event, Recorder, What};
use crate::topologies::{FaultLog, chosen};
use crate::worker::{Orders, Trouble};

/// How long a process may take to close its manager and to exit. A slow machine may stop for seconds.
const EXIT: Duration = Duration::from_secs(120);

/// The worker processes of a run. When one has ended, another one takes its place.
pub(crate) struct Fleet {
    recorder: Arc<Recorder>,
    directory: PathBuf,
    /// Whether most faults strike the process that was granted the last lease.
    strikes_holders: bool,
    places: Vec<Place>,
}

/// One process after the other.
struct Place {
    /// The name of the language, and the number of this place.
    name: String,
    command: Vec<PathBuf>,
    orders: Orders,
    generation: u64,
    running: Option<Running>,
}

struct Running {
    name: String,
    process: Process,
    input: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
}

impl Fleet {
    pub(crate) fn new(recorder: Arc<Recorder>, directory: &Path, strikes_holders: bool) -> Self {
        Self { recorder, directory: directory.to_owned(), strikes_holders, places: Vec::new() }
    }

    /// Starts a process that runs `command` with these orders.
    pub(crate) fn add(&mut self, language: &str, command: Vec<PathBuf>, orders: Orders) -> Result<(), Error> {
        let name = format!("{language}-{}", self.places.len());
        let mut place = Place { name, command, orders, generation: 0, running: None };
        place.start(&self.recorder, &self.directory)?;
        self.places.push(place);
        Ok(())
    }

    /// Strikes a process.
    pub(crate) fn strike(&mut self, step: &Step, log: &mut FaultLog) -> Result<(), Error> {
        let living: Vec<usize> = (0..self.places.len()).collect();
        let any = chosen(&living, step.pick).copied();
        let place = if self.strikes_holders && !step.pick.is_multiple_of(4) { self.last_holder().or(any) } else { any };
        let Some(place) = place.and_then(|place| self.places.get_mut(place)) else { return Ok(()) };
        let Some(running) = &mut place.running else { return Ok(()) };
        let struck = log.began(step.fault, &running.name);
        match step.fault {
            Fault::Kill => {
                self.recorder.note(What::Killed { process: running.name.clone() });
                running.process.kill();
                place.end(&self.recorder, true);
            }
            Fault::Pause => {
                running.process.pause()?;
                thread::sleep(step.lasts);
                running.process.resume()?;
            }
            Fault::Block => {
                running.tell(Trouble::Block(step.lasts.as_millis() as u64));
                thread::sleep(step.lasts);
            }
            Fault::Crash(moment) => {
                // It may be dead from now on, so nothing is expected of it.
                self.recorder.note(What::Killed { process: running.name.clone() });
                running.tell(Trouble::Crash(moment));
                place.exits(&self.recorder, |status| status.signal().is_some())?;
            }
            Fault::Terminate => {
                self.recorder.note(What::Asked { process: running.name.clone() });
                running.process.terminate()?;
                // One that has just started can't receive the signal yet.
                place.exits(&self.recorder, |status| status.success() || status.signal() == Some(15))?;
            }
            _ => place.leave(&self.recorder)?,
        }
        struck.ended();
        if place.running.is_none() {
            place.start(&self.recorder, &self.directory)?;
        }
        Ok(())
    }

    /// The place whose process was granted the last lease.
    fn last_holder(&self) -> Option<usize> {
        self.recorder.look(|events| {
            let granted = |event: &&Event| matches!(event.what, What::Granted { .. });
            let holder = events.iter().rev().find(granted).map(|event| event.by.as_str());
            self.living().position(|name| Some(name) == holder)
        })
    }

    /// The names of the processes. There is one in each place between two faults.
    pub(crate) fn living(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|place| place.running.as_ref().map_or("", |running| running.name.as_str()))
    }

    /// Notes processes that have ended by themselves, and starts others in their places.
    pub(crate) fn notice(&mut self) -> Result<(), Error> {
        for place in &mut self.places {
            let ended = match &mut place.running {
                Some(running) => running.process.ended()?.is_some(),
                None => true,
            };
            if ended {
                place.end(&self.recorder, false);
                place.start(&self.recorder, &self.directory)?;
            }
        }
        Ok(())
    }

    /// Lets all processes finish.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.notice()?;
        for place in &mut self.places {
            if let Some(running) = &mut place.running {
                self.recorder.note(What::Asked { process: running.name.clone() });
                running.input = None;
            }
        }
        self.places.iter_mut().try_for_each(|place| place.leave(&self.recorder))
    }
}

impl Running {
    /// Tells the process what to do. One that has ended by itself is noticed later.
    fn tell(&mut self, trouble: Trouble) {
        if let (Some(input), Ok(line)) = (&mut self.input, serde_json::to_string(&trouble)) {
            let _ = writeln!(input, "{line}");
        }
    }
}

impl Place {
    fn start(&mut self, recorder: &Arc<Recorder>, directory: &Path) -> Result<(), Error> {
        let name = format!("{}.{}", self.name, self.generation);
        let seed = self.orders.seed + self.generation * 1_000_000;
        let orders = Orders { seed, label: name.clone(), ..self.orders.clone() };
        let orders = serde_json::to_string(&orders).map_err(|error| Error::Refused(error.to_string()))?;
        self.generation += 1;
        // What all generations of a place print to standard error, in one file.
        let errors = File::options().create(true).append(true).open(directory.join(format!("{}.err", self.name)));
        let errors = errors.map_err(|source| Error::Io { doing: "making a worker's log".to_owned(), source })?;
        let (program, arguments) = self.command.split_first().ok_or_else(|| Error::NotFound("no worker".to_owned()))?;
        let mut command = Command::new(program);
        command.args(arguments).arg(orders).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        recorder.note(What::Started { process: name.clone() });
        let mut process = Process::spawn(&mut command)?;
        let input = process.take_stdin();
        let reader = process.take_stdout().map(|output| read(name.clone(), output, Arc::clone(recorder)));
        self.running = Some(Running { name, process, input, reader });
        Ok(())
    }

    /// Asks the process to finish, and waits until it has exited. One that does not exit is killed: its calls never ended.
    fn leave(&mut self, recorder: &Recorder) -> Result<(), Error> {
        let Some(running) = &mut self.running else { return Ok(()) };
        if running.input.take().is_some() {
            recorder.note(What::Asked { process: running.name.clone() });
        }
        self.exits(recorder, |status| status.success())
    }

    /// Waits until the process has exited, as it should.
    fn exits(&mut self, recorder: &Recorder, as_it_should: impl Fn(ExitStatus) -> bool) -> Result<(), Error> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let asked = Instant::now();
        while running.process.ended()?.is_none() && asked.elapsed() < EXIT {
            thread::sleep(Duration::from_millis(5));
        }
        let expected = running.process.ended()?.is_some_and(as_it_should);
        running.process.kill();
        self.end(recorder, expected);
        Ok(())
    }

    /// Notes the end of a process, after everything that it has written.
    fn end(&mut self, recorder: &Recorder, expected: bool) {
        let Some(mut running) = self.running.take() else { return };
        if let Some(reader) = running.reader.take() {
            let _ = reader.join();
        }
        recorder.note(What::Exited { process: running.name, expected });
    }
}

/// Records the lines of a process. The last one can be torn.
fn read(name: String, output: ChildStdout, recorder: Arc<Recorder>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut lines = BufReader::new(output);
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|length| length > 0) && line.ends_with('\n') {
            if let Err(problem) = recorder.add_line(&name, line.trim_end()) {
                // A record that makes no sense counts as the end of a process that nobody asked to end.
                eprintln!("{problem}");
                recorder.note(What::Exited { process: name.clone(), expected: false });
            }
            line.clear();
        }
    })
}
