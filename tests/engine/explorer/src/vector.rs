//! What one client goes through, as a vector for `tests/support/vectors`. It has the inputs. Blessing adds the outputs.

use leasehold_core::{Failure, Kind, Mode, OpId, Reply, Scalar};

use crate::client::{Client, UserState};
use crate::clock::Micros;
use crate::flight::{Channel, What};
use crate::keys::NAME;
use crate::scenario::{Action, CLAIM_WINDOW, RESPONSE_TIMEOUT, Scenario, TTL};
use crate::step::Step;
use crate::world::World;

/// When a vector begins, by its clock.
const BEGIN: Micros = 1_000_000;

/// The vector of a client in these steps.
///
/// # Errors
/// If there is no such client.
pub(crate) fn write(scenario: &Scenario, begin: &World, steps: &[Step], client: u8) -> Result<String, String> {
    let it = begin.clients.get(usize::from(client)).ok_or_else(|| format!("there is no client {client}"))?;
    let id = it.id.clone();
    let mut world = begin.clone();
    let mut inputs = Vec::new();
    for step in steps {
        if let Some(input) = input(&world, *step, client) {
            inputs.push(format!("    {{ \"at\": {}, \"input\": {input} }}", BEGIN + world.now));
        }
        if world.take(*step).is_err() {
            break;
        }
    }
    let (claim_window, response_timeout) = (CLAIM_WINDOW.as_millis(), RESPONSE_TIMEOUT.as_millis());
    Ok(format!(
        "{{\n  \"about\": \"Found by the explorer: {}.\",\n  \"client\": \"{id}\",\n  \"config\": {{ \"claim_window\": \
         {claim_window}, \"response_timeout\": {response_timeout}, \"batches\": {} }},\n  \"steps\": [\n{}\n  ]\n}}\n",
        scenario.about,
        scenario.batches,
        inputs.join(",\n")
    ))
}

/// What this step puts into the client's engine.
fn input(world: &World, step: Step, client: u8) -> Option<String> {
    let it: &Client = world.clients.get(usize::from(client))?;
    match step {
        Step::Act { client: actor, user } if actor == client => {
            let user = it.users.get(usize::from(user))?;
            let op = it.next_op();
            let lease = if let UserState::Holding(lease, _) = user.state { lease.0 } else { 0 };
            Some(match (user.next()?, user.state) {
                (Action::Acquire(mode), _) => acquire(world.scenario, op, mode, "forever"),
                (Action::Try(mode), _) => acquire(world.scenario, op, mode, "no"),
                (Action::Cancel, UserState::Waiting(open)) => format!("{{ \"cancel\": {{ \"op\": {} }} }}", open.0),
                (Action::Cancel, _) => return None,
                (Action::Convert(mode), _) => {
                    let mode = word(mode);
                    format!("{{ \"convert\": {{ \"op\": {op}, \"lease\": {lease}, \"mode\": \"{mode}\" }} }}")
                }
                (Action::Shorten(ttl), _) => {
                    let ms = ttl.as_millis();
                    format!("{{ \"shorten\": {{ \"op\": {op}, \"lease\": {lease}, \"ttl\": {ms} }} }}")
                }
                (Action::Release, _) => format!("{{ \"release\": {{ \"op\": {op}, \"lease\": {lease} }} }}"),
                (Action::Store, _) => {
                    let value = String::from_utf8_lossy(&it.value(OpId(op))).into_owned();
                    format!("{{ \"store\": {{ \"op\": {op}, \"lease\": {lease}, \"value\": {value:?} }} }}")
                }
                (Action::Forget, _) => format!("{{ \"forget\": {{ \"op\": {op}, \"name\": \"{NAME}\" }} }}"),
                (Action::Campaign, _) => format!(
                    "{{ \"campaign\": {{ \"value\": \"{}\", \"acquire\": {{ \"op\": {op}, \"name\": \"{NAME}\", \"ttl\": {} }} }} }}",
                    it.id,
                    TTL.as_millis()
                ),
                (Action::Observe, _) => format!("{{ \"observe\": {{ \"op\": {op}, \"name\": \"{NAME}\" }} }}"),
                (Action::Detach(time), _) => {
                    let time = time.map_or_else(String::new, |time| format!(", \"time\": {}", time.as_millis()));
                    format!("{{ \"detach\": {{ \"op\": {op}, \"lease\": {lease}{time} }} }}")
                }
                (Action::Adopt, _) => format!(
                    "{{ \"adopt\": {{ \"token\": \"{}\", \"acquire\": {{ \"op\": {op}, \"name\": \"{NAME}\", \"ttl\": {} }} }} }}",
                    world.watch.passing.token?.text(),
                    TTL.as_millis()
                ),
                (Action::Drain(within), _) => {
                    format!("{{ \"drain\": {{ \"op\": {op}, \"within\": {} }} }}", within.as_millis())
                }
                (Action::Close, _) => format!("{{ \"close\": {{ \"op\": {op} }} }}"),
            })
        }
        Step::Wake(woken) if woken == client => Some("\"wake\"".to_owned()),
        Step::Arrive(number) => {
            let flight = world.flights.iter().find(|flight| flight.number == number && flight.client == client)?;
            match &flight.what {
                What::Command(..) | What::Subscribe(_) => None,
                What::Reply(id, _, reply) => {
                    let result = match &**reply {
                        Ok(Reply::One(one)) => format!("{{ \"one\": {} }}", scalar(one)),
                        Ok(Reply::List(list)) => {
                            format!("{{ \"list\": [{}] }}", list.iter().map(scalar).collect::<Vec<_>>().join(", "))
                        }
                        Err(Failure::Refused(text)) => format!("{{ \"refused\": {text:?} }}"),
                        Err(other) => format!("{{ \"interrupted\": {:?} }}", format!("{other:?}")),
                    };
                    Some(format!("{{ \"reply\": {{ \"call\": {}, \"result\": {result} }} }}", id.0))
                }
                What::Message(channel, payload) => {
                    let (channel, payload) = (named(*channel), String::from_utf8_lossy(payload));
                    Some(format!("{{ \"message\": {{ {channel}\"payload\": {payload:?} }} }}"))
                }
                What::Subscribed(channel) => {
                    Some(format!("{{ \"subscribed\": {{ {} }} }}", named(*channel).trim_end_matches(", ")))
                }
            }
        }
        _ => None,
    }
}

fn acquire(scenario: &Scenario, op: u64, mode: Mode, wait: &str) -> String {
    let (mode, ttl) = (word(mode), TTL.as_millis());
    let keep = match scenario.kind {
        Kind::Once { keep } => format!(", \"keep\": {}", keep.as_millis()),
        _ => String::new(),
    };
    format!(
        "{{ \"acquire\": {{ \"op\": {op}, \"name\": \"{NAME}\", \"mode\": \"{mode}\", \"ttl\": {ttl}, \"wait\": \"{wait}\"{keep} }} }}"
    )
}

/// A channel's name. It is left out if it is the client's own.
fn named(channel: Channel) -> String {
    match channel {
        Channel::Own => String::new(),
        Channel::Leader => format!("\"channel\": \"{}\", ", channel.name("")),
    }
}

fn word(mode: Mode) -> &'static str {
    if mode == Mode::Shared { "shared" } else { "exclusive" }
}

fn scalar(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Nil => "null".to_owned(),
        Scalar::Int(number) => number.to_string(),
        Scalar::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_has_the_inputs_of_one_client() {
        let scenario = Scenario::named("writers-slow-path").unwrap();
        let begin = World::new(scenario, 0, 0).unwrap();
        let steps = ["act-0.0", "act-1.0", "arrive-1", "arrive-3", "act-0.0"].map(|step| step.parse().unwrap());
        let vector = write(scenario, &begin, &steps, 0).unwrap();
        assert_eq!(vector.matches("\"at\": 1000000").count(), 3, "{vector}");
        assert!(
            vector.contains("\"acquire\": { \"op\": 1, \"name\": \"job\"") && vector.contains("[\"entered\", 18"),
            "{vector}"
        );
        assert!(vector.contains("\"release\": { \"op\": 2, \"lease\": 1 }"), "{vector}");
        assert!(write(scenario, &begin, &steps, 2).is_err());
    }
}
