//! The archive, the image's content and the checksums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::{NAME, VERSION, said};
use super::target::Target;
use crate::tools::cargo::{cargo, root, run};
use crate::tools::error::{Error, Result};

/// The shells, and the file of each one's completions.
pub(super) const SHELLS: [(&str, &str); 4] =
    [("bash", "leasehold.bash"), ("zsh", "_leasehold"), ("fish", "leasehold.fish"), ("powershell", "_leasehold.ps1")];

pub(super) const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// What the program says about itself.
pub(super) struct Documents {
    pub(super) manual: String,
    /// In the order of [`SHELLS`].
    pub(super) completions: Vec<String>,
}

impl Documents {
    /// Asks the program, or if this machine can't run it, a program of this machine.
    pub(super) fn of(target: &Target, program: &Path) -> Result<Self> {
        Self::asked(|| match target.is_this_machine() {
            true => Command::new(program),
            false => cargo(&["run", "--quiet", "--package", "leasehold-cli", "--"]),
        })
    }

    pub(super) fn asked(program: impl Fn() -> Command) -> Result<Self> {
        let manual = said(program().arg("man"))?;
        let completions = SHELLS.iter().map(|(shell, _)| said(program().args(["completions", shell])));
        Ok(Self { manual, completions: completions.collect::<Result<_>>()? })
    }
}

/// An archive with one folder: the program, its licences, its manual page and its completions.
pub(super) fn archive(target: &Target, program: &Path, documents: &Documents, place: &Path) -> Result<PathBuf> {
    let name = format!("{NAME}-{VERSION}-{}", target.triple);
    let folder = place.join(&name);
    empty(&folder)?;
    install(program, &folder.join(target.program(NAME)))?;
    for file in LICENCES {
        install(&root().join(file), &folder.join(file))?;
    }
    install(&root().join("cli/README.md"), &folder.join("README.md"))?;
    write(&folder.join(format!("{NAME}.1")), &documents.manual)?;
    for ((_, file), text) in SHELLS.iter().zip(&documents.completions) {
        write(&folder.join("completions").join(file), text)?;
    }
    let archive = place.join(format!("{name}.{}", if target.is_windows() { "zip" } else { "tar.gz" }));
    let _ = fs::remove_file(&archive);
    let mut command = Command::new(if target.is_windows() { "zip" } else { "tar" });
    command.args(if target.is_windows() { ["-q", "-r"] } else { ["-c", "-z"] });
    command.args((!target.is_windows()).then_some("-f")).arg(&archive).arg(&name).current_dir(place);
    // Apple's tar adds a hidden file to each file otherwise.
    run(command.env("COPYFILE_DISABLE", "1"))?;
    fs::remove_dir_all(&folder)?;
    Ok(archive)
}

/// What `cli/Dockerfile` copies: the program of each architecture, and the certificates that this machine trusts.
pub(super) fn image(program: &Path, architecture: &str, place: &Path) -> Result {
    const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
    let image = place.join("image");
    install(program, &image.join(architecture).join(NAME))?;
    let advice = |error| Error::new(format!("{CERTIFICATES}: {error}: install ca-certificates"));
    fs::copy(CERTIFICATES, image.join("ca-certificates.crt")).map(drop).map_err(advice)
}

/// A file with the SHA-256 of each file, for `sha256sum --check`.
pub(super) fn sums(target: &Target, files: &[PathBuf], place: &Path) -> Result<PathBuf> {
    let mut command = if cfg!(target_os = "macos") { Command::new("shasum") } else { Command::new("sha256sum") };
    command.args(cfg!(target_os = "macos").then_some(["-a", "256"]).into_iter().flatten());
    command.args(files.iter().filter_map(|file| file.file_name())).current_dir(place);
    let sums = place.join(format!("{NAME}-{VERSION}-{}.sha256", target.triple));
    write(&sums, &said(&mut command)?)?;
    Ok(sums)
}

/// Makes a folder that has nothing in it.
pub(super) fn empty(folder: &Path) -> Result {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

/// Copies a file, with its permissions.
pub(super) fn install(from: &Path, to: &Path) -> Result {
    let failed = |error| Error::new(format!("{}: {error}", from.display()));
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map(drop).map_err(failed)
}

pub(super) fn write(file: &Path, text: &str) -> Result {
    fs::create_dir_all(file.parent().unwrap_or(file))?;
    Ok(fs::write(file, text)?)
}
