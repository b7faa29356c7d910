//! What travels between clients and the server: commands, replies and messages, and what engines make of them.

use std::sync::Arc;

use leasehold_core::{Failure, Input, Kind, LeaseId, LossReason, NodeId, Output, Reply, Scalar};

use crate::client::{Client, UserState};
use crate::clock::{self, Micros, micros};
use crate::flight::{Channel, Flight, What};
use crate::keys::holders;
use crate::results::Before;
use crate::scenario::RESPONSE_TIMEOUT;
use crate::verdict::{Broken, Verdict};
use crate::world::World;

/// The server runs at most this many commands at one moment. Then a little time passes. A client whose fences are ahead
/// of the clock asks for more until the clock has caught up.
const MOST_AT_ONCE: u8 = 16;
/// How much time passes then.
const MOMENT: Micros = 2_000;

impl World {
    /// Something in flight arrives.
    pub(crate) fn arrive(&mut self, number: u16) -> Verdict {
        let Some(Flight { client, what, since, copied, .. }) = self.take_flight(number) else { return Ok(()) };
        let node = NodeId(0);
        let heard = what.clone();
        match what {
            What::Command(id, command) => {
                let words: Vec<&[u8]> = command.words().collect();
                self.watch.passing.arrives(&command, since.map(|since| self.now - since));
                let had = holders(&self.server, clock::server(self.now));
                let reply = self.execute(&words)?;
                if !self.is_harmed {
                    self.watch.ran(self.now, &words, &reply, &had, &self.server)?;
                }
                self.send(client, What::Reply(id, command, Arc::new(reply)), since);
                self.drop_unheard();
                self.ran += 1;
                if self.ran == MOST_AT_ONCE {
                    (self.now, self.ran) = (self.now + MOMENT, 0);
                }
                Ok(())
            }
            What::Reply(id, _, result) => {
                let in_time = !copied && since.is_some_and(|since| self.now < since + micros(RESPONSE_TIMEOUT));
                let entered = entered_at(&result).filter(|_| in_time).unwrap_or(0);
                let lost = self.watch.lost_before(entered, &self.clients[usize::from(client)]);
                self.feed(client, Input::Reply { id, result: (*result).clone() })?;
                match self.clients[usize::from(client)].beliefs.iter().find(|belief| lost.contains(&belief.token)) {
                    Some(belief) => Err(Broken::new("loss-unnoticed", format!("{belief:?} was lost and taken anew"))),
                    None => Ok(()),
                }
            }
            What::Message(Channel::Leader, payload) => {
                // A message that has been overtaken by a later one is a reason to ask.
                self.client_mut(client).asked_at = None;
                let channel = Channel::Leader.name("");
                self.feed(client, Input::Message { node, channel: &channel, payload: &payload })
            }
            What::Message(Channel::Own, payload) => {
                if let Some(token) = revoked(&payload) {
                    self.client_mut(client).revoked.push(token);
                }
                // It was told before it knows of its own lease, and forgets that.
                let it = &self.clients[usize::from(client)];
                let has_lease = it.engine.as_ref().is_some_and(|engine| !engine.lingering().is_empty());
                self.watch.unheard |= it.beliefs.is_empty() && !has_lease;
                let channel = Channel::Own.name(&it.id);
                self.feed(client, Input::Message { node, channel: &channel, payload: &payload })
            }
            What::Subscribe(channel) => {
                self.client_mut(client).set_on(channel, true);
                self.send(client, What::Subscribed(channel), since);
                self.drop_unheard();
                Ok(())
            }
            What::Subscribed(channel) => {
                self.client_mut(client).asked_at = None;
                let channel = channel.name(&self.clients[usize::from(client)].id);
                self.feed(client, Input::Subscribed { node, channel: &channel })
            }
        }?;
        self.hears(client, &heard);
        Ok(())
    }

    /// Nobody hears what is sent to a process that has died.
    pub(crate) fn drop_unheard(&mut self) {
        let Self { flights, clients, .. } = self;
        flights.retain(|flight| {
            let to_server = matches!(flight.what, What::Command(..) | What::Subscribe(_));
            to_server || clients[usize::from(flight.client)].engine.is_some()
        });
    }

    /// Runs a command on the server, and sends its messages.
    pub(crate) fn execute(&mut self, words: &[&[u8]]) -> Result<Result<Reply, Failure>, Broken> {
        let time = clock::server(self.now);
        let before = if self.struck > 0 { None } else { Some(self.server.clone()) };
        let results = matches!(self.scenario.kind, Kind::Once { .. }).then(|| Before::of(&self.server, time));
        let executed = Arc::make_mut(&mut self.server).execute(time, words);
        let executed = executed.map_err(|error| Broken::new("server", error.to_string()))?;
        let converts = words.get(1) == Some(&leasehold_lua::CONVERT.sha1.as_bytes());
        self.watch.executed(time, before.filter(|_| !converts).as_deref(), &self.server)?;
        if let Some(before) = results {
            self.watch.results.ran(time, &before, &self.server)?;
        }
        if self.scenario.kind == Kind::Election {
            self.watch.terms.ran(time, &self.server);
        }
        for message in executed.published {
            let (channel, payload) = (String::from_utf8_lossy(&message.channel), Arc::from(message.payload));
            let channel_is = Channel::named(&channel);
            let hears = |client: &Client| client.is_on(channel_is) && channel_is.name(&client.id) == channel;
            let clients: Vec<u8> = self.places().filter(|(_, client)| hears(client)).map(|(place, _)| place).collect();
            self.watch.unheard |= clients.is_empty() && channel_is == Channel::Own;
            for client in clients {
                self.send(client, What::Message(channel_is, Arc::clone(&payload)), Some(self.now));
            }
        }
        Ok(executed.reply.map_err(Failure::Refused))
    }

    /// Passes an input to an engine, and carries its outputs out.
    pub(crate) fn feed(&mut self, place: u8, input: Input<'_>) -> Verdict {
        let now = self.now;
        let client = self.client_mut(place);
        let over: Vec<LeaseId> = client.beliefs.iter().filter(|it| it.until <= now).map(|it| it.lease).collect();
        let Some(engine) = client.engine.as_mut() else { return Ok(()) };
        engine.handle(clock::client(now), input);
        let outputs: Vec<Output> = std::iter::from_fn(|| engine.poll_output()).collect();
        for output in outputs {
            match output {
                Output::Send { id, command, .. } => {
                    self.tells(place, &command)?;
                    self.asks(place, &command)?;
                    self.watch.passing.sends(&command)?;
                    self.send(place, What::Command(id, Arc::new(command)), Some(now));
                }
                Output::Subscribe { channel, .. } => {
                    self.send(place, What::Subscribe(Channel::named(&channel)), Some(now));
                }
                Output::Unsubscribe { channel, .. } => {
                    self.client_mut(place).set_on(Channel::named(&channel), false);
                }
                Output::Completed { op, result } => self.completed(place, op, result)?,
                Output::Lost { lease, reason } => {
                    let is_taken = matches!(reason, LossReason::Gone | LossReason::Taken | LossReason::Revoked);
                    let is_over = self.is_calm() && reason == LossReason::Expired && !self.scenario.shortens();
                    if is_taken && !self.is_harmed || is_over {
                        let detail =
                            format!("client {place} lost {lease:?} because of {reason:?}, and nothing took it");
                        return Err(Broken::new("lost-in-vain", detail));
                    }
                    let client = self.client_mut(place);
                    let Some(token) = client.belief(lease).map(|belief| belief.token.clone()) else {
                        return Err(Broken::new(
                            "lost-twice",
                            format!("client {place} lost {lease:?}, which it had not"),
                        ));
                    };
                    client.lost.push(token);
                    client.disbelieve(lease);
                    for user in &mut client.users {
                        if let UserState::Holding(held, until) = &mut user.state
                            && *held == lease
                        {
                            *until = now;
                        }
                    }
                }
                Output::Leader { leader, .. } => {
                    let (time, told) = (clock::server(now), self.clients[usize::from(place)].told);
                    let leader = leader.as_ref().map(|leader| (leader.fence, leader.value.as_str()));
                    let told = self.watch.terms.tells(told, leader, time, &self.server)?;
                    let client = self.client_mut(place);
                    (client.told, client.asked_at) = (Some(told), None);
                }
                Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
            }
        }
        if let Some(late) = self.clients[usize::from(place)].beliefs.iter().find(|it| over.contains(&it.lease)) {
            return Err(Broken::new("loss-late", format!("client {place} is not told at {now} that {late:?} is over")));
        }
        self.refresh(place)
    }

    /// What the client believes after an input.
    fn refresh(&mut self, place: u8) -> Verdict {
        let (now, max_hold) = (self.now, self.scenario.max_hold.map(micros));
        let client = self.client_mut(place);
        let mut beliefs = std::mem::take(&mut client.beliefs);
        for belief in &mut beliefs {
            let Some(engine) = &client.engine else { continue };
            let (until, info) = (engine.valid_until(belief.lease), engine.lease(belief.lease));
            let (Some(until), Some(info)) = (until, info) else {
                return Err(Broken::new("loss-untold", format!("client {place} has silently forgotten {belief:?}")));
            };
            (belief.until, belief.mode) = (clock::when(until), info.mode);
            if let Some(token) = client.token(belief.lease) {
                belief.token = token;
            }
            if belief.until <= now {
                return Err(Broken::new("loss-late", format!("client {place} still has {belief:?} at {now}")));
            }
            if client.revoked.contains(&belief.token) {
                return Err(Broken::new("revoked", format!("client {place} was told that it lost {belief:?}")));
            }
            if max_hold.is_some_and(|most| belief.until > belief.granted + most) {
                return Err(Broken::new("max-hold", format!("client {place} has {belief:?} for too long")));
            }
        }
        client.beliefs = beliefs;
        self.drains_well(place)
    }
}

/// When the server gave the lock to its client, if the answer says that.
fn entered_at(answer: &Result<Reply, Failure>) -> Option<u64> {
    let Ok(Reply::List(answer)) = answer else { return None };
    match answer.as_slice() {
        [Scalar::Text(status), _, _, Scalar::Int(at), ..] if **status == *b"entered" => u64::try_from(*at).ok(),
        _ => None,
    }
}

/// The token that an operator took, if the message says so.
fn revoked(payload: &[u8]) -> Option<Vec<u8>> {
    payload.strip_prefix(b"revoked ")?.split(|byte| *byte == b' ').next().map(<[u8]>::to_vec)
}
