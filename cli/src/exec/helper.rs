//! The processes that `exec` starts from this same program. They have no subcommands: their first word says what they are,
//! and options of `exec` and the environment mean nothing to them.

use std::env;
use std::process::ExitCode;

use super::{guard, start};
use crate::report::Output;

/// Does the work of a helper, if this process is one.
pub(crate) fn run() -> Option<ExitCode> {
    let mut words = env::args_os();
    let name = words.next()?;
    if name == guard::NAME {
        return Some(match guard::run(words) {
            Ok(code) => ExitCode::from(code),
            Err(failure) => Output { json: false }.fail(&failure),
        });
    }
    if name == start::NAME {
        let (output, failure) = start::run(words);
        return Some(output.fail(&failure));
    }
    None
}
