use std::path::Path;
use std::process::Command;

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
    pub(crate) fn banner(self) -> &'static str {
        match self {
            Self::Redis62 => "Redis server v=6.2.",
            Self::Redis70 => "Redis server v=7.0.",
            Self::Redis8 => "Redis server v=8.",
            Self::Valkey9 => "Valkey server v=9.",
        }
    }
}

/// The first line of `--version`, if the program runs and is a server.
pub(crate) fn banner(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && text.contains(" server v=")).then_some(text)
}
