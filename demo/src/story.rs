//! What happens to the workers, and in which order.

use std::time::Duration;

use crate::error::Result;
use crate::fleet::TTL;
use crate::report::Report;
use crate::stage::Stage;

/// A writer in Rust.
const KILLED: usize = 2;
/// The writer that is paused: one in Node if it has joined, or else one in Rust.
const PAUSED: [usize; 2] = [6, 4];

/// How long the workers run before each act. Of two times, the first is the least, and the second is the most while
/// other workers may still join.
pub(crate) struct Pace {
    kill: (Duration, Duration),
    pause: (Duration, Duration),
    resume: Duration,
    end: (Duration, Duration),
}

impl Default for Pace {
    /// The story takes 13 s, or up to 45 s while latecomers are built.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            kill: (seconds(3), seconds(10)),
            pause: (TTL + seconds(2), seconds(15)),
            resume: TTL + Duration::from_millis(1500),
            end: (seconds(2), seconds(15)),
        }
    }
}

/// Tells the story. Latecomers join when they are ready. Only those that are awaited delay it.
pub(crate) fn tell(mut stage: Stage<'_>, pace: &Pace) -> Result<Report> {
    stage.play_until_all_awaited_are_here()?;
    stage.raise_the_curtain();
    stage.play_for(pace.kill)?;
    stage.kill_in_section(KILLED)?;
    stage.play_for(pace.pause)?;
    let paused = PAUSED.into_iter().find(|number| stage.is_here(*number)).unwrap_or(PAUSED[1]);
    let fence = stage.pause_in_section(paused)?;
    stage.play_for((pace.resume, pace.resume))?;
    stage.play_until_an_update_after(fence)?;
    stage.resume(paused)?;
    stage.play_until_refused(paused)?;
    stage.play_for(pace.end)?;
    stage.play_until_all_had_a_turn()?;
    stage.close()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;
    use std::time::Instant;

    use super::*;
    use crate::fleet::{Component, Language, Place, Workers};
    use crate::latecomers::{Arrival, Latecomers};
    use crate::progress::Build;

    /// A worker without a server, which reports what a real one would.
    const FAKE: &str = r#"#!/bin/sh
if [ "$1" = judge ]; then
    echo '{"event":"ready","server":"no server"}'
    while read -r _; do :; done
    echo '{"event":"final","counter":0,"mirror":0}'
    exit
fi
echo '{"event":"ready","server":""}'
turns() {
    fence=1
    while echo '{"event":"done","fence":'$fence',"asked":1,"granted":2,"released":3,"consistent":true}'; do
        sleep 0.1
        fence=$((fence + 1))
    done
}
turns &
turns=$!
while read -r _; do
    echo '{"event":"lingering","fence":0}'
    echo '{"event":"refused","fence":0}'
done
kill $turns
"#;

    const FAST: Pace = {
        let (least, most) = (Duration::ZERO, Duration::from_millis(100));
        Pace { kill: (least, most), pause: (least, most), resume: least, end: (least, most) }
    };

    /// The story with fake workers. The worker on the component joins late, after this command.
    fn with_latecomers(build: &[&str], awaited: bool) -> Result<Report> {
        let directory = tempfile::tempdir()?;
        let fake = directory.path().join("worker");
        fs::write(&fake, FAKE)?;
        fs::set_permissions(&fake, Permissions::from_mode(0o755))?;
        let component = Some(Component { program: fake.clone(), lock: Path::new("lock.wasm").to_owned() });
        let workers = Workers { rust: fake, node: None, component };
        let place = Place { workers, url: String::new(), prefix: String::new(), ttl: TTL };
        let mut command = Command::new(build[0]);
        command.args(&build[1..]);
        let builds = vec![Build { what: "building the late worker", command }];
        let late = Arrival::begin(Latecomers { language: Language::Wasi, builds, awaited })?;
        tell(Stage::open(&place, Instant::now(), vec![late])?, &FAST)
    }

    fn in_wasi(report: &Report) -> u64 {
        report.workers.iter().filter(|worker| worker.language == Language::Wasi).map(|worker| worker.turns).sum()
    }

    #[test]
    fn the_story_does_not_wait_for_a_late_worker_and_tells_that_it_is_missing() {
        let began = Instant::now();
        let report = with_latecomers(&["sleep", "3600"], false).unwrap();
        assert!(began.elapsed() < Duration::from_secs(3600), "it didn't wait for the build");
        assert!(report.refused > 0, "the story was told to its end");
        assert_eq!(report.missing, [(Language::Wasi, "their programs were not built in time".to_owned())]);
        assert_eq!(in_wasi(&report), 0);
        let problems = report.problems().join("; ");
        assert!(!problems.contains("did not get the lock"), "{problems}");
    }

    #[test]
    fn a_late_worker_joins_when_it_is_ready() {
        let report = with_latecomers(&["sleep", "0.2"], true).unwrap();
        assert_eq!(report.missing, []);
        assert!(in_wasi(&report) > 0, "it has its turns");
    }

    #[test]
    fn a_worker_that_can_not_be_built_fails_the_demo_only_if_it_is_awaited() {
        let build = ["sh", "-c", "echo no network; exit 1"];
        let report = with_latecomers(&build, false).unwrap();
        assert!(report.missing[0].1.contains("no network"), "{:?}", report.missing);
        let error = with_latecomers(&build, true).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("the workers in WASI are missing") && error.contains("no network"), "{error}");
    }
}
