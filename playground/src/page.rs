//! What the page calls. Everything is a number, a text or a yes, so that it passes to JavaScript easily.

use std::time::Duration;

use crate::scenarios::{self, Begun, Scenario, Step};
use crate::timeline::View;
use crate::world::{Action, Who, World};

/// Time passes at most this far in one step, if there is no visible event.
const LONGEST_STEP: Duration = Duration::from_secs(5);
/// How often the end of a step is looked for, in µs.
const SLICE_US: u64 = 10_000;
/// The part of the picture that is in the future, where TTLs end.
const FUTURE: u64 = 4;

/// A world, and the scenario that is being played.
#[derive(Default)]
pub struct Playground {
    world: World,
    scenario: Option<&'static Scenario>,
    played: usize,
    /// The last step of those that were played, while it runs.
    running: Option<(&'static Step, Begun)>,
}

/// Time and scenarios.
impl Playground {
    /// Begins again, with a scenario or without one.
    pub fn begin(&mut self, scenario: Option<usize>) {
        let scenario = scenario.and_then(|scenario| scenarios::ALL.get(scenario));
        *self = Self { scenario, ..Self::default() };
    }

    /// Lets this much time pass, in ms: at most a minute. Begins the scenario's next step if no step runs, and ends early
    /// with the step, so that a reader can look at what it did.
    pub fn advance(&mut self, ms: f64) {
        let us = (ms.clamp(0.0, 60_000.0) * 1_000.0) as u64;
        let until = self.world.now_us() + us;
        if self.running.is_none() {
            self.begin_step();
        }
        let Some((step, begun)) = self.running else { return self.world.advance_to(until) };
        while self.world.now_us() < until {
            self.world.advance_to(until.min(self.world.now_us() + SLICE_US));
            if step.is_over(begun, &self.world) {
                return self.running = None;
            }
        }
    }

    /// Plays the scenario's next step to its end, or the one that runs. Without a scenario, time passes until the next
    /// visible event.
    pub fn step(&mut self) {
        if self.running.is_none() && !self.begin_step() {
            return self.world.step(LONGEST_STEP);
        }
        if let Some((step, begun)) = self.running.take() {
            step.finish(begun, &mut self.world);
        }
    }

    fn begin_step(&mut self) -> bool {
        let Some(step) = self.scenario.and_then(|scenario| scenario.steps.get(self.played)) else { return false };
        self.running = Some((step, step.begin(&mut self.world)));
        self.played += 1;
        true
    }

    /// Whether the scenario is between two steps.
    pub fn rests(&self) -> bool {
        self.running.is_none() && self.played > 0 && !self.is_over()
    }

    /// Whether all steps of the scenario were played.
    pub fn is_over(&self) -> bool {
        self.running.is_none() && self.scenario.is_some_and(|scenario| self.played == scenario.steps.len())
    }

    /// How many steps of the scenario were played, with the one that runs.
    pub const fn played(&self) -> usize {
        self.played
    }

    /// The texts of the scenario's steps.
    pub fn steps(&self) -> Vec<&'static str> {
        self.scenario.map(|scenario| scenario.steps.iter().map(|step| step.text).collect()).unwrap_or_default()
    }

    /// What the scenario shows. Empty without one.
    pub fn about(&self) -> &'static str {
        self.scenario.map_or("", |scenario| scenario.about)
    }

    /// The virtual time, in ms.
    pub fn now_ms(&self) -> f64 {
        self.world.now_us() as f64 / 1_000.0
    }
}

/// Buttons. `client` is 0 to 2, or anything else for the server.
impl Playground {
    /// Presses a button. Unknown buttons and impossible actions change nothing.
    pub fn press(&mut self, action: &str, client: usize) {
        if let Some(action) = button(action, client) {
            self.world.press(action);
        }
    }

    /// Whether a button can be pressed now.
    pub fn allows(&self, action: &str, client: usize) -> bool {
        button(action, client).is_some_and(|action| self.world.allows(action))
    }

    /// The words on a button.
    pub fn label(&self, action: &str, client: usize) -> &'static str {
        button(action, client).map_or("", |action| self.world.label(action))
    }
}

/// What there is to see.
impl Playground {
    /// What a client believes.
    pub fn client_text(&self, client: usize) -> String {
        Who::ALL.get(client).map(|who| self.world.client_text(*who)).unwrap_or_default()
    }

    /// What the server has.
    pub fn server_text(&self) -> String {
        self.world.server_text()
    }

    /// What the resource knows.
    pub fn resource_text(&self) -> String {
        self.world.resource_text()
    }

    /// What happened, in words, from a line on.
    pub fn log(&self, from: usize) -> &[String] {
        self.world.log().get(from..).unwrap_or_default()
    }

    /// Draws the last seconds as an SVG. 0 seconds means everything.
    pub fn timeline(&self, seconds: u32, width: u32) -> String {
        let now = self.world.now_us();
        let all = (now + now / FUTURE).max(10_000_000);
        let length = match u64::from(seconds) * 1_000_000 {
            0 => all,
            length => length.min(all),
        };
        let until = (now + length / FUTURE).max(length).min(all);
        let view = View { from: until - length, until, now, width: width.max(400) };
        let title = format!("{} {}", self.world.server_text(), self.world.resource_text());
        self.world.timeline().svg(&view, &title)
    }
}

fn button(action: &str, client: usize) -> Option<Action> {
    Action::named(action, Who::ALL.get(client).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No client.
    const SERVER: usize = 9;

    #[test]
    fn a_button_that_can_not_be_pressed_changes_nothing() {
        let mut page = Playground::default();
        for (action, client) in [("release", 0), ("write", 1), ("nonsense", 0), ("acquire", 7), ("", SERVER)] {
            assert!(!page.allows(action, client), "{action}");
            page.press(action, client);
        }
        page.advance(10_000.0);
        page.advance(f64::NAN);
        page.advance(-1.0);
        assert_eq!((page.log(0).len(), page.now_ms()), (0, 10_000.0));
    }

    #[test]
    fn a_scenario_that_runs_stops_after_each_step_and_is_over_in_the_end() {
        let mut page = Playground::default();
        page.begin(Some(1));
        assert!(!page.rests() && !page.is_over());
        let mut rests = Vec::new();
        for _ in 0..5_000 {
            page.advance(40.0);
            if page.rests() {
                rests.push(page.played());
            }
            if page.is_over() {
                break;
            }
        }
        assert!(page.is_over());
        assert_eq!(rests, [1, 2, 3, 4, 5]);
        assert!(page.log(0).iter().any(|line| line.contains("refuses A's write")), "{:#?}", page.log(0));
        let over = page.now_ms();
        page.advance(1_000.0);
        assert_eq!(page.now_ms(), over + 1_000.0, "time goes on");
    }

    #[test]
    fn a_step_finishes_the_step_that_runs() {
        let mut page = Playground::default();
        page.begin(Some(0));
        page.advance(40.0);
        assert_eq!(page.played(), 1);
        page.step();
        assert!(page.rests() && page.played() == 1);
        assert!(page.client_text(0).contains("It holds the lock"), "{}", page.client_text(0));
    }

    #[test]
    fn a_wipe_tells_the_holder_at_its_next_renewal() {
        let mut page = Playground::default();
        page.press("acquire", 0);
        page.advance(1_000.0);
        assert!(page.client_text(0).starts_with("It holds the lock"), "{}", page.client_text(0));
        page.press("wipe", SERVER);
        page.advance(3_000.0);
        assert!(
            page.log(0).iter().any(|line| line.contains("A is notified that it lost the lock")),
            "{:#?}",
            page.log(0)
        );
    }

    #[test]
    fn a_holder_whose_network_is_cut_loses_the_lock_before_another_client_gets_it() {
        let mut page = Playground::default();
        page.press("acquire", 0);
        page.advance(1_000.0);
        page.press("acquire", 1);
        page.press("cut", 0);
        page.advance(9_000.0);
        let line = |words: &str| page.log(0).iter().position(|line| line.contains(words));
        let (lost, granted) = (line("A is notified"), line("B holds the lock"));
        assert!(lost.is_some() && lost < granted, "{:#?}", page.log(0));
        page.press("cut", 0);
        page.advance(1_000.0);
        page.press("acquire", 0);
        page.advance(3_000.0);
        assert!(page.client_text(0).contains("queue"), "{:#?}", page.log(0));
        page.press("release", 1);
        page.advance(1_000.0);
        assert!(page.client_text(0).starts_with("It holds the lock"), "{:#?}", page.log(0));
    }

    #[test]
    fn nothing_passes_through_a_cut_network() {
        let mut page = Playground::default();
        page.press("cut", 0);
        page.press("acquire", 0);
        page.advance(3_000.0);
        assert!(page.server_text().starts_with("The lock is free."), "{}", page.server_text());
        page.press("acquire", 1);
        page.advance(1_000.0);
        page.press("cut", 1);
        page.press("write", 1);
        page.advance(1_000.0);
        assert_eq!(page.resource_text(), "It has seen no fence.");
        page.press("cut", 0);
        page.advance(3_000.0);
        assert!(page.client_text(0).contains("queue"), "{:#?}", page.log(0));
    }

    #[test]
    fn three_clients_get_the_lock_in_the_order_in_which_they_asked() {
        let mut page = Playground::default();
        for client in 0..3 {
            page.press("acquire", client);
            page.advance(1_500.0);
        }
        for client in 0..3 {
            assert!(page.client_text(client).starts_with("It holds the lock"), "{:#?}", page.log(0));
            page.press("release", client);
            page.advance(1_000.0);
        }
        assert!(page.server_text().starts_with("The lock is free. Nobody waits."), "{}", page.server_text());
    }

    #[test]
    fn a_client_that_starts_again_knows_nothing_of_its_earlier_life() {
        let mut page = Playground::default();
        page.press("acquire", 0);
        page.advance(1_000.0);
        page.press("kill", 0);
        assert_eq!((page.client_text(0).as_str(), page.label("kill", 0)), ("It is not running.", "Restart"));
        page.press("kill", 0);
        assert!(page.allows("acquire", 0) && !page.allows("write", 0));
    }

    #[test]
    fn a_paused_waiter_learns_of_its_grant_when_it_goes_on() {
        let mut page = Playground::default();
        page.press("acquire", 0);
        page.advance(1_000.0);
        page.press("acquire", 1);
        page.advance(1_500.0);
        page.press("pause", 1);
        page.press("release", 0);
        page.advance(1_000.0);
        assert!(page.server_text().starts_with("B has the lock"), "{}", page.server_text());
        assert!(!page.client_text(1).contains("holds") && !page.allows("acquire", 1));
        page.press("pause", 1);
        assert!(page.client_text(1).starts_with("It holds the lock"), "{:#?}", page.log(0));
    }

    #[test]
    fn a_step_goes_to_the_next_visible_event() {
        let mut page = Playground::default();
        page.press("acquire", 0);
        let before = page.now_ms();
        page.step();
        assert!(page.now_ms() > before && page.now_ms() < before + 500.0);
        assert!(page.log(0).iter().any(|line| line.contains("The server gives A")), "{:#?}", page.log(0));
        assert!(page.timeline(12, 1_200).contains("holds c0"));
        page.begin(Some(1));
        assert_eq!((page.log(0).len(), page.steps().len(), page.played()), (0, 6, 0));
        page.begin(Some(99));
        assert!(page.steps().is_empty());
    }
}
