use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, install};

/// A server version that `--full` tests use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The oldest supported version.
    Redis62,
    /// The version that Debian and Ubuntu ship.
    Redis70,
    /// The newest Redis line.
    Redis8,
    /// The newest Valkey line.
    Valkey9,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Self; 4] = [Self::Redis62, Self::Redis70, Self::Redis8, Self::Valkey9];

    /// The version's name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis62 => "Redis 6.2",
            Self::Redis70 => "Redis 7.0",
            Self::Redis8 => "Redis 8",
            Self::Valkey9 => "Valkey 9",
        }
    }

    /// The beginning of the program's `--version` line.
    fn banner(self) -> &'static str {
        match self {
            Self::Redis62 => "Redis server v=6.2.",
            Self::Redis70 => "Redis server v=7.0.",
            Self::Redis8 => "Redis server v=8.",
            Self::Valkey9 => "Valkey server v=9.",
        }
    }
}

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

/// The first line of `--version`, if the program runs and is a server.
pub(crate) fn banner(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && text.contains(" server v=")).then_some(text)
}
