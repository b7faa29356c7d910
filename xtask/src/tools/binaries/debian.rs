//! The Debian package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::files::{Documents, LICENCES, SHELLS, empty, install, write};
use super::program::{NAME, VERSION};
use crate::tools::cargo::{root, run};
use crate::tools::error::Result;

/// Where Debian's shells look for completions, in the order of [`SHELLS`].
const COMPLETIONS: [Option<&str>; SHELLS.len()] = [
    Some("usr/share/bash-completion/completions/leasehold"),
    Some("usr/share/zsh/vendor-completions/_leasehold"),
    Some("usr/share/fish/vendor_completions.d/leasehold.fish"),
    None,
];

/// A package with the program, its manual page, its completions and its licences.
pub(super) fn package(program: &Path, documents: &Documents, architecture: &str, place: &Path) -> Result<PathBuf> {
    let tree = place.join(format!("{NAME}-{architecture}"));
    empty(&tree)?;
    install(program, &tree.join("usr/bin").join(NAME))?;
    for (place, text) in COMPLETIONS.iter().zip(&documents.completions) {
        if let Some(place) = place {
            write(&tree.join(place), text)?;
        }
    }
    write(&tree.join("usr/share/man/man1/leasehold.1"), &documents.manual)?;
    let about = tree.join("usr/share/doc").join(NAME);
    write(&about.join("copyright"), &copyright()?)?;
    install(&root().join("CHANGELOG.md"), &about.join("changelog"))?;
    // Without a time and a name, so that the same files make the same package.
    run(Command::new("gzip")
        .args(["-9", "-n"])
        .args([tree.join("usr/share/man/man1/leasehold.1"), about.join("changelog")]))?;
    let size = fs::metadata(program)?.len();
    write(&tree.join("DEBIAN/control"), &control(architecture, size))?;
    let package = place.join(format!("{NAME}_{VERSION}_{architecture}.deb"));
    // Every user must be able to read what is installed, whatever this user's mask is.
    run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&tree))?;
    run(Command::new("dpkg-deb").args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(&package))?;
    fs::remove_dir_all(&tree)?;
    Ok(package)
}

fn control(architecture: &str, size: u64) -> String {
    let kib = size.div_ceil(1024);
    format!(
        "Package: {NAME}\n\
         Version: {VERSION}\n\
         Architecture: {architecture}\n\
         Maintainer: The leasehold contributors <leasehold@users.noreply.github.com>\n\
         Installed-Size: {kib}\n\
         Recommends: ca-certificates\n\
         Section: utils\n\
         Priority: optional\n\
         Homepage: https://github.com/leasehold/leasehold\n\
         Description: distributed locks over Redis and Valkey\n \
          leasehold runs a command under a lock that all machines share, shows who\n \
          holds a lock and who waits for it, takes locks away in an incident, and\n \
          checks servers. The program needs no shared library.\n"
    )
}

/// Debian's form: the licences are one after the other.
fn copyright() -> Result<String> {
    let mut text =
        "leasehold is licensed under the MIT licence or the Apache licence 2.0, at your option.\n".to_owned();
    for file in LICENCES {
        text += &format!("\n{file}:\n\n{}", fs::read_to_string(root().join(file))?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the build: a script is the program.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_debian_package_has_the_program_with_its_manual_and_completions() {
        use std::os::unix::fs::PermissionsExt as _;

        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        fs::write(&program, "#!/bin/sh\necho \"$@\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let documents = Documents::asked(|| Command::new(&program)).unwrap();
        let package = package(&program, &documents, "amd64", place.path()).unwrap();
        assert!(package.ends_with(format!("leasehold_{VERSION}_amd64.deb")));

        let root = place.path().join("root");
        assert!(Command::new("dpkg-deb").arg("-x").args([&package, &root]).status().unwrap().success());
        let read = |file: &str| fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(read("usr/share/bash-completion/completions/leasehold"), "completions bash\n");
        assert_eq!(read("usr/share/zsh/vendor-completions/_leasehold"), "completions zsh\n");
        assert_eq!(read("usr/share/fish/vendor_completions.d/leasehold.fish"), "completions fish\n");
        assert!(read("usr/share/doc/leasehold/copyright").contains("Apache License"));
        assert!(root.join("usr/share/man/man1/leasehold.1.gz").exists());
        assert!(root.join("usr/share/doc/leasehold/changelog.gz").exists());
        // Other users can run it, though the file belonged to one user.
        let mode = fs::metadata(root.join("usr/bin/leasehold")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        let control = Command::new("dpkg-deb").arg("-f").arg(&package).output().unwrap();
        let control = String::from_utf8(control.stdout).unwrap();
        assert!(control.contains("Architecture: amd64\n") && !control.contains("Depends"), "{control}");
    }
}
