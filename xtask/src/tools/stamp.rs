//! Stamps: nothing is built again while its sources have not changed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Error, Result};

/// A digest of the sources of a build product, in a file beside it.
pub(crate) struct Stamp {
    path: PathBuf,
    digest: String,
}

/// Folders that are generated from the sources, or not ours.
const NO_SOURCES: [&str; 4] = ["node_modules", "generated", "dist", "target"];

impl Stamp {
    /// A stamp over files, whole directories, and the versions of the programs that are used.
    pub(crate) fn over(path: PathBuf, sources: &[PathBuf], programs: &[&str]) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        for source in sources {
            add(source, &mut hasher)?;
        }
        for program in programs {
            Command::new(program).arg("--version").output()?.stdout.hash(&mut hasher);
        }
        Ok(Self { path, digest: format!("{:016x}\n", hasher.finish()) })
    }

    /// Whether the same was built before.
    pub(crate) fn is_current(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|found| found == self.digest)
    }

    /// Called before the build, so that a build that fails half-way doesn't count.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Called after the build.
    pub(crate) fn set(&self) -> Result {
        fs::write(&self.path, &self.digest).map_err(|error| Error::new(format!("{}: {error}", self.path.display())))
    }
}

fn add(path: &Path, hasher: &mut DefaultHasher) -> Result {
    let unreadable = |error| Error::new(format!("{}: {error}", path.display()));
    path.file_name().hash(hasher);
    if !path.is_dir() {
        fs::read(path).map_err(unreadable)?.hash(hasher);
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(unreadable)?;
    let mut inside = entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    inside.retain(|path| !NO_SOURCES.iter().any(|name| path.ends_with(name)));
    inside.sort();
    inside.len().hash(hasher);
    inside.iter().try_for_each(|path| add(path, hasher))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process;

    use super::*;

    #[test]
    fn a_stamp_is_current_until_a_source_changes() -> Result {
        let here = env::temp_dir().join(format!("leasehold-stamp-{}", process::id()));
        let source = here.join("sources").join("deep").join("a.rs");
        fs::create_dir_all(here.join("sources").join("deep"))?;
        fs::write(&source, "one")?;
        let stamp = || Stamp::over(here.join("stamp"), &[here.join("sources")], &[]);

        assert!(!stamp()?.is_current(), "nothing was made yet");
        stamp()?.set()?;
        assert!(stamp()?.is_current());
        fs::create_dir_all(here.join("sources").join("node_modules").join("other"))?;
        assert!(stamp()?.is_current(), "what is not ours does not count");
        fs::write(&source, "two")?;
        assert!(!stamp()?.is_current(), "a file's content counts");
        stamp()?.set()?;
        fs::rename(&source, source.with_file_name("b.rs"))?;
        assert!(!stamp()?.is_current(), "a file's name counts");
        stamp()?.set()?;
        stamp()?.remove();
        assert!(!stamp()?.is_current());
        fs::remove_dir_all(&here)?;
        Ok(())
    }
}
