use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::sleep;

/// Nanoseconds since 1970. All processes of a machine share this clock, and it never steps inside one process.
pub(crate) fn now() -> u64 {
    static START: OnceLock<(Instant, u64)> = OnceLock::new();
    let (start, then) = START.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), nanos(since))
    });
    then + nanos(start.elapsed())
}

/// The time in which turns count, after a warm-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Window {
    /// Opens after `warm_up`, and closes `time` later.
    pub(crate) fn after(warm_up: Duration, time: Duration) -> Self {
        let from = now() + nanos(warm_up);
        Self { from, until: from + nanos(time) }
    }

    pub(crate) fn contains(&self, moment: u64) -> bool {
        (self.from..self.until).contains(&moment)
    }

    pub(crate) async fn opened(&self) {
        sleep(Duration::from_nanos(self.from.saturating_sub(now()))).await;
    }

    pub(crate) async fn closed(&self) {
        sleep(Duration::from_nanos(self.until.saturating_sub(now()))).await;
    }
}

/// The processor time of this process so far.
pub(crate) fn own_cpu() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(spent.tv_sec).unwrap_or(0), u32::try_from(spent.tv_nsec).unwrap_or(0))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
