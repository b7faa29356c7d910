//! `leasehold-playground <file.html> <title> <outcome>` draws the transcript on its standard input as a page.
//! `cargo xtask simulate --seed N --html FILE` runs it.

use std::error::Error;
use std::{env, fs, io};

use leasehold_playground::transcript;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, title, outcome] = arguments.as_slice() else {
        return Err("usage: leasehold-playground <file.html> <title> <outcome>".into());
    };
    let text = io::read_to_string(io::stdin())?;
    fs::write(file, transcript::page(title, outcome, &text)).map_err(|error| format!("{file}: {error}"))?;
    Ok(())
}
