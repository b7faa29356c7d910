//! One file: an engine is made and driven step by step.

use leasehold_core::{ClientId, Config, Engine, Error, Instant, NodeId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input::{Event, Plain, bytes_of_hex};
use crate::layout;
use crate::output;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[allow(dead_code, reason = "for people")]
    about: String,
    client: String,
    #[serde(default)]
    config: ConfigText,
    /// Those of a quorum; without them there is one server.
    servers: Option<Vec<String>>,
    /// Whether the server is a cluster, so that one script takes only names of one slot.
    #[serde(default)]
    cluster: bool,
    /// Why no engine can be made of this configuration.
    refused: Option<Value>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: u64,
    #[serde(default)]
    why: String,
    input: Event,
    #[serde(default)]
    outputs: Value,
    #[serde(default)]
    wake: Value,
}

/// What is left out has the engine's default.
#[derive(Deserialize, Default)]
struct ConfigText {
    prefix: Option<String>,
    batches: Option<bool>,
    ahead: Option<bool>,
    /// The others, by the names of the engine's table.
    #[serde(flatten)]
    plain: Plain,
}

/// Replays a file and sets in it what the engine puts out. Answers how that differs from what stood there.
pub(crate) fn replay(value: &mut Value) -> Vec<String> {
    let file: File = match serde_json::from_value(value.clone()) {
        Ok(file) => file,
        Err(error) => return vec![format!("not a vector: {error}")],
    };
    let mut engine = match file.engine() {
        Ok(engine) => engine,
        Err(error) => {
            let refused = output::error(&error);
            let before = value["refused"].take();
            value["refused"] = refused.clone();
            return differs("the configuration", "", &before, &refused).into_iter().collect();
        }
    };
    let mut differences = Vec::new();
    if let Some(refused) = file.refused {
        differences.extend(differs("the configuration", "", &refused, &Value::Null));
    }
    for (index, step) in file.steps.iter().enumerate() {
        let at = format!("step {} at {} µs", index + 1, step.at);
        step.input.handle(|input| engine.handle(Instant::from_micros(step.at), input));
        let outputs: Vec<Value> = std::iter::from_fn(|| engine.poll_output()).map(|out| output::output(&out)).collect();
        let wake = json!(engine.poll_timeout().map(|(at, _)| at.as_micros()));
        let outputs = Value::Array(outputs);
        differences.extend(differs(&format!("{at}, outputs"), &step.why, &step.outputs, &outputs));
        differences.extend(differs(&format!("{at}, wake"), &step.why, &step.wake, &wake));
        value["steps"][index]["outputs"] = outputs;
        value["steps"][index]["wake"] = wake;
    }
    differences
}

fn differs(place: &str, why: &str, vector: &Value, engine: &Value) -> Option<String> {
    (vector != engine).then(|| {
        let why = if why.is_empty() { String::new() } else { format!("\n  ({why})") };
        format!("{place}:{why}\n  vector: {}\n  engine: {}", layout::lines(vector), layout::lines(engine))
    })
}

fn client(uuid: &str) -> ClientId {
    let bytes = bytes_of_hex(&uuid.replace('-', ""));
    ClientId::from_random(bytes.try_into().expect("a client id has 16 bytes"))
}

impl File {
    fn engine(&self) -> Result<Engine, Error> {
        let (client, config) = (client(&self.client), self.config.config());
        let Some(servers) = &self.servers else {
            let mut engine = Engine::new(client, config)?;
            if self.cluster {
                engine.set_cluster(NodeId(0));
            }
            return Ok(engine);
        };
        let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
        Engine::quorum(client, config, &servers)
    }
}

impl ConfigText {
    fn config(&self) -> Config {
        let default = Config::default();
        let mut config = Config {
            prefix: self.prefix.clone().unwrap_or(default.prefix),
            batches: self.batches.unwrap_or(default.batches),
            ahead: self.ahead.unwrap_or(default.ahead),
            ..Config::default()
        };
        config.set_plain(&mut self.plain.setter(Config::PLAIN));
        config
    }
}
