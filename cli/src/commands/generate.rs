//! Shell completions and the man page.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::report::{Failure, Outcome};

pub(super) fn completions(shell: Shell) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "leasehold", &mut text);
    print(&text)
}

/// The man page: the program, then each subcommand.
pub(super) fn man() -> Outcome {
    let mut command = Cli::command();
    command.build();
    let mut text = Vec::new();
    let failed = |error: io::Error| Failure::system("can't make the man page", error);
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(failed)?;
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let page = clap_mangen::Man::new(subcommand.clone());
        let title = subcommand.get_name().to_uppercase();
        writeln!(text, ".SH \"LEASEHOLD {title}\"").map_err(failed)?;
        page.render_synopsis_section(&mut text).map_err(failed)?;
        page.render_description_section(&mut text).map_err(failed)?;
        page.render_options_section(&mut text).map_err(failed)?;
    }
    // Its own name for what comes after the help.
    let text = String::from_utf8_lossy(&text).replacen("\n.SH EXTRA\n", "\n.SH \"EXAMPLES AND EXIT CODES\"\n", 1);
    print(text.as_bytes())
}

fn print(text: &[u8]) -> Outcome {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text).and_then(|()| stdout.flush()).map_err(|error| Failure::output(&error))?;
    Ok(0)
}
