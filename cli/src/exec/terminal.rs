//! The terminal's foreground: the command gets it while it runs, as shells do it, so that Ctrl-C and Ctrl-Z reach it.

use std::io::{self, IsTerminal as _};

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// A terminal in whose foreground we run.
pub(super) struct Terminal {
    own: Pid,
    settings: Option<Termios>,
}

impl Terminal {
    /// None without a terminal, in the background, and as a part of a pipeline, whose other parts need the terminal too.
    pub(super) fn of_foreground() -> Option<Self> {
        let (stdin, own) = (io::stdin(), getpgrp());
        let ours = stdin.is_terminal() && io::stdout().is_terminal() && tcgetpgrp(&stdin) == Ok(own);
        ours.then(|| Self { own, settings: tcgetattr(stdin).ok() })
    }

    /// Makes the group the foreground, unless we are in the background ourselves.
    pub(super) fn give_to(&self, group: Pid) {
        if tcgetpgrp(io::stdin()) == Ok(self.own) {
            set_foreground(group);
            // It may have asked for the terminal before it had it.
            let _ = killpg(group, Signal::SIGCONT);
        }
    }

    /// Makes our group the foreground again.
    pub(super) fn take_back(&self) {
        set_foreground(self.own);
    }

    /// Sets the terminal as it was: a command that a signal ended may have left it without an echo.
    pub(super) fn restore(&self) {
        if let Some(settings) = &self.settings {
            let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, settings);
        }
    }

    /// Stops this process and its shell's other processes of the job. Returns after `fg` or `bg`.
    pub(super) fn stop_own_group(&self) {
        let _ = killpg(self.own, Signal::SIGSTOP);
    }
}

/// The kernel stops a process of the background that does this, unless it blocks SIGTTOU.
fn set_foreground(group: Pid) {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTTOU);
    if blocked.thread_block().is_ok() {
        let _ = tcsetpgrp(io::stdin(), group);
        let _ = blocked.thread_unblock();
    }
}
