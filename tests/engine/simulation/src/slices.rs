//! A long run in slices. Each slice is added to a log, and a later run goes on where the log ends.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use crate::campaign::Summary;
use crate::coverage::Coverage;
use crate::world::Counts;

/// The seeds of one slice.
pub const SLICE: u64 = 10_000;

/// The sum of all slices in a log, and the next seed. A log that does not exist yet is empty.
///
/// # Errors
/// If the log can't be read, or one of its lines can't be parsed.
pub fn read(path: &Path, start: u64) -> io::Result<(Summary, u64)> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Summary::default(), start)),
        file => file?,
    };
    let (mut sum, mut next) = (Summary::default(), start);
    for line in BufReader::new(file).lines() {
        let line = line?;
        let (first, slice) = parse(&line)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("not a slice's line: {line:.60}")))?;
        next = next.max(first + slice.seeds);
        sum.add(slice);
    }
    Ok((sum, next))
}

/// Adds a slice to the log.
///
/// # Errors
/// If the log can't be written.
pub fn append(path: &Path, first: u64, slice: &Summary) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let Counts { calls, faults, grants, local, losses, micros } = slice.counts;
    writeln!(
        file,
        "slice {first} {} {} {calls} {faults} {grants} {local} {losses} {micros} {}",
        slice.seeds,
        slice.took.as_millis(),
        slice.coverage.to_line()
    )
}

fn parse(line: &str) -> Option<(u64, Summary)> {
    let mut words = line.strip_prefix("slice ")?.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (first, seeds, ms) = (number()?, number()?, number()?);
    let counts = Counts {
        calls: number()?,
        faults: number()?,
        grants: number()?,
        local: number()?,
        losses: number()?,
        micros: number()?,
    };
    let coverage = Coverage::from_line(words.next()?)?;
    Some((first, Summary { seeds, counts, coverage, failures: Vec::new(), took: Duration::from_millis(ms) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gives_back_the_sum_of_its_slices_and_the_next_seed() {
        let path = std::env::temp_dir().join(format!("leasehold-slices-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        assert_eq!(read(&path, 5).unwrap().1, 5);
        let counts = Counts { calls: 3_000, ..Counts::default() };
        let slice = Summary { seeds: 10, counts, took: Duration::from_millis(70), ..Summary::default() };
        append(&path, 5, &slice).unwrap();
        append(&path, 15, &slice).unwrap();
        let (sum, next) = read(&path, 5).unwrap();
        assert_eq!((next, sum.seeds, sum.counts.calls, sum.took.as_millis()), (25, 20, 6_000, 140));
        std::fs::remove_file(&path).unwrap();
    }
}
