use leasehold_core::Reply;
use leasehold_model::ModelServer;

use super::{Host, Lock};

/// The model with a clock that only the test moves.
pub(crate) struct Model {
    pub(crate) server: ModelServer,
    pub(crate) now_us: u64,
    /// Every published message: channel and payload.
    pub(crate) published: Vec<(String, String)>,
}

/// A lock on a new model server.
pub(crate) fn model_lock() -> Lock<Model> {
    let model = Model { server: ModelServer::new(), now_us: 1_700_000_000_000_000, published: Vec::new() };
    Lock::new(model, "invoice:42")
}

impl Host for Model {
    fn run(&mut self, words: &[&str]) -> Result<Reply, String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let executed = self.server.execute(self.now_us, &words);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        self.published.extend(executed.published.into_iter().map(|(channel, payload)| (channel, text(payload))));
        executed.reply
    }
}

impl Lock<Model> {
    pub(crate) fn pass_ms(&mut self, ms: u64) {
        self.host.now_us += ms * 1000;
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.host.now_us / 1000
    }

    /// The holder: the value of N.
    pub(crate) fn holder(&self) -> Option<String> {
        self.host.server.get(self.host.now_us, &self.keys[0])
    }

    pub(crate) fn readers(&self) -> Vec<String> {
        self.members(4)
    }

    pub(crate) fn queue(&self) -> Vec<String> {
        self.members(2)
    }

    pub(crate) fn buried(&self) -> Vec<String> {
        self.members(5)
    }

    pub(crate) fn waiters(&self) -> Vec<(String, String)> {
        self.host.server.hash(self.host.now_us, &self.keys[3])
    }

    /// The last fence that the server remembers.
    pub(crate) fn last_fence(&self) -> i64 {
        self.host.server.get(self.host.now_us, &self.keys[1]).map_or(0, |text| text.parse().unwrap())
    }

    /// What was published since the last call.
    pub(crate) fn messages(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.host.published)
    }

    /// Every deadline on the server, in server milliseconds.
    pub(crate) fn deadlines_ms(&self) -> Vec<u64> {
        let (server, now) = (&self.host.server, self.host.now_us);
        let keys = server.keys(now).into_iter().filter_map(|(_, expires)| expires.map(|us| us / 1000));
        let scores = [4, 5].into_iter().flat_map(|key| server.zset(now, &self.keys[key]));
        let records = server.hash(now, &self.keys[3]).into_iter();
        keys.chain(scores.map(|(_, score)| score as u64))
            .chain(records.filter_map(|(_, record)| record.rsplit(' ').next()?.parse().ok()))
            .collect()
    }

    fn members(&self, key: usize) -> Vec<String> {
        let members = self.host.server.zset(self.host.now_us, &self.keys[key]);
        members.into_iter().map(|(member, _)| member).collect()
    }
}
