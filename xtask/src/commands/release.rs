use std::fs;

use clap::Args;

use crate::tools::binaries::{self, Target};
use crate::tools::error::Result;
use crate::tools::log::say;

/// Make what a release has of the command line, in `target/binaries`: an archive with checksums, and for Linux a static program, a
/// Debian package and what the container image is made of
#[derive(Args)]
pub(crate) struct Options {
    /// The compiler's name of the system [default: this machine's]
    #[arg(long)]
    target: Option<String>,
}

/// Makes the files and prints their paths.
pub(crate) fn make(options: &Options) -> Result {
    for file in binaries::make(Target::named(options.target.as_deref())?)? {
        say!("{}: {} bytes", file.display(), fs::metadata(&file)?.len());
    }
    Ok(())
}
