//! What the buttons of the page do.

use super::client::Belief;
use super::{Who, World};

/// A button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client asks for the lock, and waits for it.
    Acquire(Who),
    /// The client gives the lock back, or stops waiting for it.
    Release(Who),
    /// The client writes to the resource with its fence. A paused client does it first thing when it goes on.
    Write(Who),
    /// The process stands still, or goes on.
    Pause(Who),
    /// The process is killed, or starts again.
    Kill(Who),
    /// Nothing passes between the client and the rest, or it does again.
    Cut(Who),
    /// The network loses the next reply to the client.
    LoseReply(Who),
    /// The server loses all keys.
    Wipe,
    /// A replica that lacks the last writes takes over.
    FailOver,
}

impl Action {
    /// The action of a button: its name, and the client if it has one.
    pub fn named(name: &str, who: Option<Who>) -> Option<Self> {
        let of_client: fn(Who) -> Self = match name {
            "acquire" => Self::Acquire,
            "release" => Self::Release,
            "write" => Self::Write,
            "pause" => Self::Pause,
            "kill" => Self::Kill,
            "cut" => Self::Cut,
            "lose-reply" => Self::LoseReply,
            "wipe" => return Some(Self::Wipe),
            "fail-over" => return Some(Self::FailOver),
            _ => return None,
        };
        who.map(of_client)
    }
}

impl World {
    /// Whether an action is possible now.
    pub fn allows(&self, action: Action) -> bool {
        let runs = |who| self.client(who).engine.is_some();
        let awake = |who| runs(who) && !self.client(who).paused;
        match action {
            Action::Acquire(who) => awake(who) && self.client(who).belief == Belief::Idle,
            Action::Release(who) => awake(who) && self.client(who).belief != Belief::Idle,
            Action::Write(who) => runs(who) && self.holds(who) && self.client(who).write_on_resume.is_none(),
            Action::Pause(who) => runs(who),
            Action::LoseReply(who) => runs(who) && !self.client(who).loses_reply,
            Action::Kill(_) | Action::Cut(_) | Action::Wipe | Action::FailOver => true,
        }
    }

    /// The words on a button.
    pub fn label(&self, action: Action) -> &'static str {
        match action {
            Action::Acquire(_) => "Acquire",
            Action::Release(who) if matches!(self.client(who).belief, Belief::Waits { .. }) => "Stop waiting",
            Action::Release(_) => "Release",
            Action::Write(_) => "Write",
            Action::Pause(who) if self.client(who).paused => "Resume",
            Action::Pause(_) => "Pause",
            Action::Kill(who) if self.client(who).engine.is_none() => "Restart",
            Action::Kill(_) => "Kill",
            Action::Cut(who) if self.client(who).cut => "Restore network",
            Action::Cut(_) => "Cut network",
            Action::LoseReply(_) => "Lose next reply",
            Action::Wipe => "Wipe",
            Action::FailOver => "Fail over",
        }
    }

    /// Presses a button. Nothing happens if the action is not possible.
    pub fn press(&mut self, action: Action) {
        if !self.allows(action) {
            return;
        }
        match action {
            Action::Acquire(who) => {
                self.say(format_args!("{} asks for the lock.", who.name()));
                self.acquire(who);
            }
            Action::Release(who) => {
                let what = if self.holds(who) { "releases the lock" } else { "stops waiting" };
                self.say(format_args!("{} {what}.", who.name()));
                self.release(who);
            }
            Action::Write(who) => self.press_write(who),
            Action::Pause(who) if self.client(who).paused => {
                self.say(format_args!("{} goes on.", who.name()));
                self.resume(who);
            }
            Action::Pause(who) => {
                self.client_mut(who).paused = true;
                self.say(format_args!("{} is paused.", who.name()));
            }
            Action::Kill(who) if self.client(who).engine.is_none() => {
                self.start(who);
                self.say(format_args!("{} starts again. It knows nothing of its earlier life.", who.name()));
            }
            Action::Kill(who) => {
                self.kill(who);
                self.say(format_args!("{} is killed.", who.name()));
            }
            Action::Cut(who) if self.client(who).cut => {
                self.client_mut(who).cut = false;
                self.say(format_args!("The network of {} works again.", who.name()));
                self.break_connection(who, "the network was cut");
            }
            Action::Cut(who) => {
                self.client_mut(who).cut = true;
                self.say(format_args!("The network of {} is cut.", who.name()));
            }
            Action::LoseReply(who) => {
                self.client_mut(who).loses_reply = true;
                self.say(format_args!("The network will lose the next reply to {}.", who.name()));
            }
            Action::Wipe => self.wipe(),
            Action::FailOver => self.fail_over(),
        }
        self.look();
    }

    fn press_write(&mut self, who: Who) {
        let Belief::Holds { fence, .. } = self.client(who).belief else { return };
        if self.client(who).paused {
            self.client_mut(who).write_on_resume = Some(fence);
            self.say(format_args!("{} was paused just before its write. It writes when it goes on.", who.name()));
        } else {
            self.say(format_args!("{} writes.", who.name()));
            self.send_write(who, fence);
        }
    }
}
