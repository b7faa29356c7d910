use std::env;
use std::path::PathBuf;

use crate::version::{Version, banner};
use crate::{Error, install};

/// Finds any server program: `LEASEHOLD_SERVER`, then `redis-server` or `valkey-server` on `PATH`. If there
/// is none, it installs one.
///
/// # Errors
/// [`Error::NotFound`] if there is none and none can be installed without a password. The text says what to run.
pub fn find() -> Result<PathBuf, Error> {
    if let Some(program) = env::var_os("LEASEHOLD_SERVER") {
        let program = PathBuf::from(program);
        return match banner(&program) {
            Some(_) => Ok(program),
            None => {
                Err(Error::NotFound(format!("LEASEHOLD_SERVER={} is no Redis or Valkey server", program.display())))
            }
        };
    }
    if let Some(program) = on_path().find(|program| banner(program).is_some()) {
        return Ok(program);
    }
    install::any()
}

/// Finds a server program of this version on `PATH`. If there is none, it installs one.
///
/// # Errors
/// [`Error::NotFound`] if there is none and it can't be installed without a password.
pub fn find_version(version: Version) -> Result<PathBuf, Error> {
    let is_it = |program: &PathBuf| banner(program).is_some_and(|banner| banner.starts_with(version.banner()));
    if let Some(program) = on_path().find(is_it) {
        return Ok(program);
    }
    let program = install::version(version)?;
    if is_it(&program) {
        return Ok(program);
    }
    Err(Error::NotFound(format!("{} is not {} here", program.display(), version.name())))
}

fn on_path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = env::split_paths(&path).collect();
    ["redis-server", "valkey-server"]
        .into_iter()
        .flat_map(move |name| directories.clone().into_iter().map(move |directory| directory.join(name)))
        .filter(|program| program.is_file())
}
