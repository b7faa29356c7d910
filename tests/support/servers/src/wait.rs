use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// Several servers on a busy machine may need this long to agree.
const LIMIT: Duration = Duration::from_secs(120);

/// Waits until `holds` returns true. An error counts as false.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        let outcome = holds();
        if matches!(outcome, Ok(true)) {
            return Ok(());
        }
        if start.elapsed() > LIMIT {
            return Err(Error::NotStarted(format!("not within {LIMIT:?}: {what} ({outcome:?})")));
        }
        thread::sleep(Duration::from_millis(10));
    }
}
