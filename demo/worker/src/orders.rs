use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The demo's commands to this process.
#[derive(Clone, Default)]
pub(crate) struct Orders {
    linger: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Orders {
    /// Reads standard input in the background.
    pub(crate) fn listen() -> Self {
        let orders = Self::default();
        let heard = orders.clone();
        thread::spawn(move || {
            for _linger in io::stdin().lines().map_while(Result::ok) {
                heard.linger.store(true, Ordering::Relaxed);
            }
            heard.stop.store(true, Ordering::Relaxed);
        });
        orders
    }

    /// Whether to stay in the critical section. True once per command.
    pub(crate) fn to_linger(&self) -> bool {
        self.linger.swap(false, Ordering::Relaxed)
    }

    /// Whether to end.
    pub(crate) fn to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
