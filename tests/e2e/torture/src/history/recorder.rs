use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::event::{Event, HARNESS, What};
use super::now;

/// Collects the events of all processes. Threads share it.
#[derive(Debug, Default)]
pub struct Recorder {
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    /// Adds an event of the harness, now.
    pub fn note(&self, what: What) {
        self.add(Event { at: now(), by: HARNESS.to_owned(), what });
    }

    /// Adds an event.
    pub fn add(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Adds a line that a worker has written.
    ///
    /// # Errors
    /// If it is no event. The text contains the line.
    pub fn add_line(&self, by: &str, line: &str) -> Result<(), String> {
        let event: Event = serde_json::from_str(line).map_err(|error| format!("{by} wrote `{line}`: {error}"))?;
        self.add(Event { by: by.to_owned(), ..event });
        Ok(())
    }

    /// Looks at all events so far, in the order in which they were added.
    pub fn look<T>(&self, look: impl FnOnce(&[Event]) -> T) -> T {
        look(&self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All events, in the order of time.
    pub fn finish(&self) -> Vec<Event> {
        let mut events = std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        events.sort_by_key(|event| event.at);
        events
    }
}

/// Writes a history to a file, one event for each line.
///
/// # Errors
/// If the file can't be written.
pub fn write(path: &Path, history: &[Event]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for event in history {
        serde_json::to_writer(&mut file, event)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// Reads a history from a file.
///
/// # Errors
/// If the file can't be read, or a line is no event. The text contains the number of the line.
pub fn read(path: &Path) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    let file = File::open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("can't open {}: {error}", path.display())))?;
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let event = serde_json::from_str(&line?);
        events.push(event.map_err(|error| {
            let problem = format!("{}, line {}: {error}", path.display(), number + 1);
            io::Error::new(io::ErrorKind::InvalidData, problem)
        })?);
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_sorted_by_time_and_survives_a_file() {
        let recorder = Recorder::default();
        recorder.add_line("rust-0.0", r#"{"at":9,"what":"held","lease":1,"left":5}"#).unwrap();
        recorder.add_line("node-0.0", r#"{"at":4,"what":"stalled","from":1}"#).unwrap();
        assert!(recorder.add_line("node-0.0", "no event").unwrap_err().contains("node-0.0 wrote `no event`"));
        let history = recorder.finish();
        assert_eq!(history.iter().map(|event| event.at).collect::<Vec<_>>(), [4, 9]);

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        write(&path, &history).unwrap();
        assert_eq!(read(&path).unwrap(), history);
        std::fs::write(&path, "{}").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("line 1"));
    }
}
