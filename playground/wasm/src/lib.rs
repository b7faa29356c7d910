//! Exports the playground to the page: see `leasehold_playground::Playground`, which has the tests.

use leasehold_playground::scenarios;
use wasm_bindgen::prelude::wasm_bindgen;

/// The playground of one page.
#[wasm_bindgen]
#[derive(Default)]
pub struct Playground(leasehold_playground::Playground);

#[wasm_bindgen]
impl Playground {
    /// A world without a scenario.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// The names of the scenarios.
    pub fn scenarios() -> Vec<String> {
        scenarios::ALL.iter().map(|scenario| scenario.title.to_owned()).collect()
    }

    /// Begins again, with a scenario or without one.
    pub fn begin(&mut self, scenario: Option<usize>) {
        self.0.begin(scenario);
    }

    /// Lets this much time pass, in ms.
    pub fn advance(&mut self, ms: f64) {
        self.0.advance(ms);
    }

    /// Plays the scenario's next step, or goes to the next event.
    pub fn step(&mut self) {
        self.0.step();
    }

    /// How many steps of the scenario were played.
    pub fn played(&self) -> usize {
        self.0.played()
    }

    /// Whether the scenario is between two steps.
    pub fn rests(&self) -> bool {
        self.0.rests()
    }

    /// Whether all steps of the scenario were played.
    #[wasm_bindgen(js_name = isOver)]
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// The texts of the scenario's steps.
    pub fn steps(&self) -> Vec<String> {
        self.0.steps().into_iter().map(str::to_owned).collect()
    }

    /// What the scenario shows.
    pub fn about(&self) -> String {
        self.0.about().to_owned()
    }

    /// The virtual time, in ms.
    #[wasm_bindgen(js_name = nowMs)]
    pub fn now_ms(&self) -> f64 {
        self.0.now_ms()
    }

    /// Presses a button.
    pub fn press(&mut self, action: &str, client: usize) {
        self.0.press(action, client);
    }

    /// Whether a button can be pressed now.
    pub fn allows(&self, action: &str, client: usize) -> bool {
        self.0.allows(action, client)
    }

    /// The words on a button.
    pub fn label(&self, action: &str, client: usize) -> String {
        self.0.label(action, client).to_owned()
    }

    /// What a client believes.
    #[wasm_bindgen(js_name = clientText)]
    pub fn client_text(&self, client: usize) -> String {
        self.0.client_text(client)
    }

    /// What the server has.
    #[wasm_bindgen(js_name = serverText)]
    pub fn server_text(&self) -> String {
        self.0.server_text()
    }

    /// What the resource knows.
    #[wasm_bindgen(js_name = resourceText)]
    pub fn resource_text(&self) -> String {
        self.0.resource_text()
    }

    /// What happened, in words, from a line on.
    pub fn log(&self, from: usize) -> Vec<String> {
        self.0.log(from).to_vec()
    }

    /// Draws the last seconds as an SVG. 0 seconds means everything.
    pub fn timeline(&self, seconds: u32, width: u32) -> String {
        self.0.timeline(seconds, width)
    }
}
