//! A PostgreSQL server for one test, on a Unix socket in a temporary directory.

use std::error::Error;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use leasehold_servers::Process;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;

/// Killed when it is dropped.
pub(crate) struct Postgres {
    // Before the directory, which is removed after the server has ended.
    _process: Process,
    directory: TempDir,
}

impl Postgres {
    pub(crate) fn start() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (programs, directory) = (programs()?, tempfile::tempdir()?);
        // PostgreSQL refuses to run as root.
        let user = if fs::metadata("/proc/self")?.uid() == 0 { Some(user_postgres()?) } else { None };
        if let Some((user, group)) = user {
            chown(directory.path(), Some(user), Some(group))?;
        }
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(directory.path()).stdout(Stdio::null());
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let made =
            command("initdb").args(["--no-sync", "--auth=trust", "--username=postgres", "--pgdata=data"]).output()?;
        if !made.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)).into());
        }
        let log = fs::File::create(directory.path().join("log"))?;
        let mut server = command("postgres");
        server
            .args(["-D", "data", "-c", "listen_addresses=", "-c", "fsync=off", "-k"])
            .arg(directory.path())
            .stderr(log);
        Ok(Self { _process: Process::spawn(&mut server)?, directory })
    }

    /// Connects, as soon as the server listens.
    pub(crate) async fn pool(&self) -> Result<PgPool, Box<dyn Error + Send + Sync>> {
        let place = PgConnectOptions::new().socket(self.directory.path()).username("postgres").database("postgres");
        let mut tries = 0;
        loop {
            match PgPool::connect_with(place.clone()).await {
                Ok(pool) => return Ok(pool),
                Err(error) if tries >= 600 => {
                    let log = fs::read_to_string(self.directory.path().join("log"))?;
                    return Err(format!("PostgreSQL did not start: {error}\n{log}").into());
                }
                Err(_) => tries += 1,
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Where `initdb` and `postgres` are. Debian doesn't put them on `PATH`.
fn programs() -> Result<PathBuf, Box<dyn Error + Send + Sync>> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<_> = env::split_paths(&path).collect();
    for version in fs::read_dir("/usr/lib/postgresql").into_iter().flatten() {
        places.push(version?.path().join("bin"));
    }
    let has_both = |place: &Path| ["initdb", "postgres"].iter().all(|program| place.join(program).is_file());
    let found = places.into_iter().rfind(|place| has_both(place));
    found.ok_or_else(|| "PostgreSQL is not here: install it, on Debian with `apt-get install postgresql`".into())
}

/// The user that Debian's package makes.
fn user_postgres() -> io::Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find_map(|line| line.strip_prefix("postgres:"));
    let numbers = line.and_then(|line| {
        let mut fields = line.split(':').skip(1).map(|field| field.parse().ok());
        Some((fields.next()??, fields.next()??))
    });
    numbers.ok_or_else(|| io::Error::other("there is no user `postgres` to run PostgreSQL as"))
}
