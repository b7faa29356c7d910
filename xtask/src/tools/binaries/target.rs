//! The systems that a release has a program for.

use std::env::consts::{ARCH, OS};
use std::process::Command;

use crate::tools::error::{Error, Result};

/// A system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The compiler's name for it.
    pub(crate) triple: &'static str,
    /// Debian's name of the architecture, which is also the container image's.
    pub(super) debian: Option<&'static str>,
    /// The C compiler for the cryptography, and the package of Debian and Ubuntu that has it. Without one, the machine's own
    /// compiler is right.
    c_compiler: Option<(&'static str, &'static str)>,
}

const MUSL: Option<(&str, &str)> = Some(("musl-gcc", "musl-tools"));
const MINGW: Option<(&str, &str)> = Some(("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"));

pub(super) const ALL: [Target; 5] = [
    Target { triple: "x86_64-unknown-linux-musl", debian: Some("amd64"), c_compiler: MUSL },
    Target { triple: "aarch64-unknown-linux-musl", debian: Some("arm64"), c_compiler: MUSL },
    Target { triple: "x86_64-apple-darwin", debian: None, c_compiler: None },
    Target { triple: "aarch64-apple-darwin", debian: None, c_compiler: None },
    Target { triple: "x86_64-pc-windows-gnu", debian: None, c_compiler: MINGW },
];

impl Target {
    /// The target of this name, or this machine's.
    pub(crate) fn named(triple: Option<&str>) -> Result<&'static Self> {
        let found = ALL.iter().find(|target| triple.map_or(target.is_this_machine(), |triple| target.triple == triple));
        let known = || ALL.map(|target| target.triple).join(", ");
        found.ok_or_else(|| Error::new(format!("no such target: a release has {}", known())))
    }

    /// Whether this machine can run the program.
    pub(super) fn is_this_machine(&self) -> bool {
        let system = if OS == "macos" { "darwin" } else { OS };
        self.triple.starts_with(ARCH) && self.triple.contains(system)
    }

    pub(super) fn is_windows(&self) -> bool {
        self.triple.contains("windows")
    }

    /// The file's name of a program.
    pub(super) fn program(&self, name: &str) -> String {
        if self.is_windows() { format!("{name}.exe") } else { name.to_owned() }
    }

    /// The variable that names the C compiler to the build, and its value. Fails with advice if the compiler is missing.
    pub(super) fn c_compiler(&self) -> Result<Option<(String, &'static str)>> {
        let Some((compiler, package)) = self.c_compiler else { return Ok(None) };
        if self.debian.is_some() && !self.is_this_machine() {
            return Err(Error::new(format!("{}: build it on such a machine", self.triple)));
        }
        let found = Command::new(compiler).arg("--version").output();
        found.map_err(|_| Error::new(format!("`{compiler}` not found: install {package}")))?;
        Ok(Some((format!("CC_{}", self.triple.replace('-', "_")), compiler)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_it_is_this_machines_target() {
        let Ok(target) = Target::named(None) else { return };
        assert!(target.is_this_machine());
        assert_eq!(Target::named(Some(target.triple)).unwrap(), target);
        let error = Target::named(Some("sparc-sun-solaris")).unwrap_err().to_string();
        assert!(error.contains("aarch64-unknown-linux-musl"), "{error}");
    }

    /// Each target is in the workflow's matrix, and nothing else is.
    #[test]
    fn the_workflow_builds_each_target() {
        let workflow = include_str!("../../../../.github/workflows/release.yml");
        let built: Vec<_> = workflow.lines().filter_map(|line| line.trim().strip_prefix("target: ")).collect();
        assert_eq!(built, ALL.map(|target| target.triple));
    }
}
