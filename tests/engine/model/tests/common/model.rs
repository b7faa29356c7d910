use leasehold_core::Reply;
use leasehold_model::{Engine, ModelServer};

use super::random::Values;
use super::{Host, Lock};

/// The model with a clock that only the test moves.
pub(crate) struct Model {
    pub(crate) server: ModelServer,
    pub(crate) now_us: u64,
    /// Every published message: channel and payload.
    pub(crate) published: Vec<(String, String)>,
}

/// A lock on a new model server, which runs every script in Lua and in Rust.
pub(crate) fn model_lock() -> Lock<Model> {
    let mut server = ModelServer::new();
    server.run_scripts_in(Engine::Both);
    let model = Model { server, now_us: 1_700_000_000_000_000, published: Vec::new() };
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

impl Values for Lock<Model> {
    fn value(&self, key: &str) -> Option<String> {
        self.host.server.get(self.host.now_us, key)
    }

    fn work(&self, key: &str) -> Option<(String, String)> {
        let (holder, field) = self.host.server.hash(self.host.now_us, key).into_iter().next()?;
        Some((holder, field.strip_prefix("once ")?.to_owned()))
    }
}

impl Lock<Model> {
    pub(crate) fn pass_ms(&mut self, ms: u64) {
        self.host.now_us += ms * 1000;
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.host.now_us as i64
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.host.now_us / 1000
    }

    /// The value of N.
    pub(crate) fn value(&self) -> Option<String> {
        self.host.server.get(self.host.now_us, &self.keys[0])
    }

    /// The holder: the value of N without its fence.
    pub(crate) fn holder(&self) -> Option<String> {
        self.value().map(|value| value.split([' ', '*']).next().unwrap().to_owned())
    }

    /// Whether N says that clients wait.
    pub(crate) fn is_marked(&self) -> bool {
        self.value().unwrap().contains('*')
    }

    pub(crate) fn readers(&self) -> Vec<String> {
        self.members(4)
    }

    /// The waiters, in their order.
    pub(crate) fn queue(&self) -> Vec<String> {
        self.queue_members(false)
    }

    /// The tokens with a tombstone, the one that lasts longest first.
    pub(crate) fn tombstones(&self) -> Vec<String> {
        self.queue_members(true)
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

    fn queue_members(&self, tombstones: bool) -> Vec<String> {
        let members = self.host.server.zset(self.host.now_us, &self.keys[2]).into_iter();
        members.filter(|(_, score)| (*score < 0.0) == tombstones).map(|(member, _)| member).collect()
    }

    fn members(&self, key: usize) -> Vec<String> {
        let members = self.host.server.zset(self.host.now_us, &self.keys[key]);
        members.into_iter().map(|(member, _)| member).collect()
    }
}
