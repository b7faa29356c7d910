use std::sync::LazyLock;
use std::time::{Duration, Instant};

use leasehold_interop::{Error, Library, Peer};
use leasehold_servers::Server;

use crate::Tested;

/// How long a process may take to carry out an order. A slow machine may stop for seconds at any time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A TTL that is longer than a test takes. A waiter that nothing wakes waits for as long.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// One of our processes and one of theirs, which want the same lock.
pub(crate) struct Pair {
    pub(crate) ours: Peer,
    pub(crate) theirs: Peer,
    name: String,
}

/// The only server. Its own watchdog stops it when this process ends.
pub(crate) fn server() -> &'static Server {
    static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start().unwrap_or_else(|error| panic!("{error}")));
    &SERVER
}

impl Pair {
    pub(crate) fn start([ours, theirs]: [Library; 2], test: &str, ttl: Duration) -> Result<Self, Error> {
        let name = format!("{}-{test}", theirs.name());
        Ok(Self {
            ours: Peer::start(ours, &server().url(), &theirs.key(&name), ttl)?,
            theirs: Peer::start(theirs, &server().url(), &name, ttl)?,
            name,
        })
    }

    /// First ours and theirs, then theirs and ours, because the test must hold for both sides.
    pub(crate) fn both_ways(&mut self, mut test: impl FnMut(&mut Peer, &mut Peer) -> Tested) -> Tested {
        test(&mut self.ours, &mut self.theirs)?;
        test(&mut self.theirs, &mut self.ours)
    }

    /// Lets both sides count one number up to `goal`, and returns how much of that was ours and theirs.
    pub(crate) fn count(
        &mut self,
        goal: u64,
        workers: u32,
        pause: Duration,
    ) -> Result<[u64; 2], Box<dyn std::error::Error>> {
        let key = format!("{}-counter", self.name);
        let order = format!("count {key} {goal} {workers} {}", pause.as_millis());
        let start = Instant::now();
        self.ours.order(&order)?;
        self.theirs.order(&order)?;
        let counted = |peer: &Peer| -> Result<u64, Box<dyn std::error::Error>> {
            let reply = peer.reply(PATIENCE)?.text;
            Ok(reply.strip_prefix("counted ").ok_or_else(|| format!("it said {reply:?}"))?.parse()?)
        };
        let counts = [counted(&self.ours)?, counted(&self.theirs)?];
        println!("{}: ours {}, theirs {} within {:.1?}", self.name, counts[0], counts[1], start.elapsed());
        let number = server().cli(&["GET", &key])?;
        assert_eq!(number.text(), Some(goal.to_string().as_str()));
        Ok(counts)
    }
}
