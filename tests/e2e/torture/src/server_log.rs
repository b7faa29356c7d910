//! In which order a server queues and grants. `MONITOR` shows every command of every script, in the order in which the
//! server runs them. This is the only witness that no client can mislead.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::history::{Entry, Event, Permits, Recorder, What, day, now};
use crate::limits;

/// Follows the log of a server until it is dropped. It follows the server again after a break.
#[derive(Debug)]
pub struct ServerLog {
    ended: Arc<AtomicBool>,
    follows: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ServerLog {
    /// Begins to record what the server at this address does. `by` is its name in the history.
    pub fn follow(by: String, address: SocketAddr, recorder: Arc<Recorder>) -> Self {
        let (ended, follows) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_over, begins) = (Arc::clone(&ended), Arc::clone(&follows));
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                // A server that is down is asked again.
                let _ = read(&by, address, &recorder, &is_over, &begins);
                recorder.add(Event { at: now(), by: by.clone(), what: What::Server { entry: Entry::Forgot } });
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self { ended, follows, thread: Some(thread) }
    }

    /// Whether the server has begun to tell what it does.
    pub fn follows(&self) -> bool {
        self.follows.load(Ordering::SeqCst)
    }
}

impl Drop for ServerLog {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read(
    by: &str,
    address: SocketAddr,
    recorder: &Recorder,
    is_over: &AtomicBool,
    begins: &AtomicBool,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    stream.write_all(b"*1\r\n$7\r\nMONITOR\r\n")?;
    // The log has the time of day, and a history has the time of the monotonic clock.
    let offset = day().saturating_sub(now());
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    let mut converting = None;
    while !is_over.load(Ordering::SeqCst) {
        match lines.read_until(b'\n', &mut line) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                begins.store(true, Ordering::SeqCst);
                let text = String::from_utf8_lossy(&line);
                if let Some(Logged { micros, entry }) = Logged::of(text.trim_end(), &mut converting) {
                    let at = micros.saturating_sub(offset);
                    recorder.add(Event { at, by: by.to_owned(), what: What::Server { entry } });
                }
                line.clear();
            }
            // Nothing came for a while. What did come of a line stays in `line`.
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A line of the log that is about a queue.
#[derive(Debug, PartialEq, Eq)]
struct Logged {
    micros: u64,
    entry: Entry,
}

impl Logged {
    /// Reads `+1700000000.123456 [0 lua] "ZADD" "leasehold:{m}:queue" "1700000000123456" "<token>"`. Only scripts count.
    /// What a replica receives from its primary has an address in place of `lua`.
    ///
    /// `converting` is the new token while a script converts a lease. That one did not wait, and need not.
    fn of(line: &str, converting: &mut Option<String>) -> Option<Self> {
        let (time, rest) = line.strip_prefix('+').unwrap_or(line).split_once(" [")?;
        let (client, command) = rest.split_once("] ")?;
        let (seconds, fraction) = time.split_once('.')?;
        let micros = seconds.parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?;
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let by_script = client.ends_with(" lua");
        if !by_script {
            *converting = converted_to(&words).map(str::to_owned);
        }
        let entry = if by_script { entry(&words, micros / 1_000)? } else { of_client(&words)? };
        let is_converted = matches!(&entry, Entry::Admitted { token, .. } if converting.as_ref() == Some(token));
        (!is_converted).then_some(Self { micros, entry })
    }
}

/// The new token, if this calls the script that converts a lease. It has six keys, and the old token comes first.
fn converted_to<'a>(words: &[&'a str]) -> Option<&'a str> {
    match *words {
        [command, _, "6", _, _, _, _, _, _, _, new, "exclusive" | "shared", ..]
            if command.eq_ignore_ascii_case("evalsha") || command.eq_ignore_ascii_case("eval") =>
        {
            Some(new)
        }
        _ => None,
    }
}

/// What a client sends without a script of leasehold.
fn of_client(words: &[&str]) -> Option<Entry> {
    let (command, rest) = words.split_first()?;
    match *rest {
        _ if command.eq_ignore_ascii_case("flushall") => Some(Entry::Forgot),
        [key, label, ..] if command.eq_ignore_ascii_case("set") => {
            let client = key.strip_prefix("leasehold:client:")?.to_owned();
            Some(Entry::Labelled { client, label: label.to_owned() })
        }
        [script, .., number] if script.starts_with(limits::MARK) => Some(Entry::Read { number: number.parse().ok()? }),
        _ => None,
    }
}

/// What a script does.
fn entry(words: &[&str], clock: u64) -> Option<Entry> {
    let own = |text: &str| text.to_owned();
    match *words {
        ["ZADD", key, score, token] => {
            if let Some(name) = named(key, "queue") {
                let score: i64 = score.parse().ok()?;
                let (name, token) = (own(name), own(token));
                // A negative score is a tombstone.
                return Some(match u64::try_from(score) {
                    Ok(score) => Entry::Joined { name, token, score },
                    Err(_) => Entry::Left { name, token },
                });
            }
            if !key.starts_with(SIDE) {
                return Some(Entry::Counts { name: own(key), token: own(token), until: score.parse().ok()?, clock });
            }
            let name = named(key, "readers")?;
            Some(Entry::Admitted { name: own(name), token: own(token), exclusive: false, clock, permits: None })
        }
        ["ZREM", key, token] if !key.starts_with(SIDE) => Some(Entry::Freed { name: own(key), token: own(token) }),
        ["ZREM", key, token] => Some(Entry::Left { name: own(named(key, "queue")?), token: own(token) }),
        ["HSET", key, token, record, ref rest @ ..] => {
            if let Some(name) = named(key, "waiters") {
                let until = record.rsplit(' ').next()?.parse().ok()?;
                return Some(Entry::Alive { name: own(name), token: own(token), until });
            }
            // The holder of a once and the leader of an election. A reentrant lock has a number there.
            if !key.starts_with(SIDE) && token.contains(':') && record.contains(' ') {
                return Some(Entry::Admitted {
                    name: own(key),
                    token: own(token),
                    exclusive: true,
                    clock,
                    permits: None,
                });
            }
            // Only a semaphore that admits writes a token there. The sum of its permits has no colon.
            let name = named(key, "permits").filter(|_| token.contains(':'))?;
            let mut fields = rest.chunks_exact(2).filter_map(|field| field.first().zip(field.last()));
            let fence = fields.find(|(field, _)| **field == "fence")?.1.parse().ok()?;
            let permits = Some(Permits { count: record.split('/').next()?.parse().ok()?, fence });
            Some(Entry::Admitted { name: own(name), token: own(token), exclusive: false, clock, permits })
        }
        ["SET", key, record, "PX", _] if named(key, "result").is_some() => stored(named(key, "result")?, record),
        ["SET", name, value, "PX", _] if !name.starts_with(SIDE) => {
            let token = value.split([' ', '*']).next().filter(|token| token.contains(':'))?;
            Some(Entry::Admitted { name: own(name), token: own(token), exclusive: true, clock, permits: None })
        }
        _ => None,
    }
}

/// How all keys beside a lock begin.
const SIDE: &str = "leasehold:";

/// The result of a `once`, from the record `<writer's token> <its fence> <value>`.
pub(crate) fn stored(name: &str, record: &str) -> Option<Entry> {
    let mut parts = record.splitn(3, ' ');
    let (token, value) = (parts.next()?.to_owned(), parts.nth(1)?);
    // The value is JSON.
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.to_owned());
    Some(Entry::Stored { name: name.to_owned(), token, value })
}

/// The lock whose side key this is. A name with a hash tag stays as it is.
fn named<'a>(key: &'a str, side: &str) -> Option<&'a str> {
    let name = key.strip_prefix("leasehold:")?.strip_suffix(side)?.strip_suffix(':')?;
    name.strip_prefix(':').or_else(|| name.strip_prefix('{')?.strip_suffix('}'))
}

/// The words of a command as `MONITOR` writes them. Escapes other than `\"` and `\\` don't occur in the words that count.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut chars = command.chars();
    while let Some(char) = chars.next() {
        match (&mut word, char) {
            (None, '"') => word = Some(String::new()),
            (None, _) => {}
            (Some(_), '"') => words.extend(word.take()),
            (Some(text), '\\') => text.extend(chars.next()),
            (Some(text), char) => text.push(char),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_of(line: &str) -> Option<Entry> {
        Logged::of(line, &mut None).map(|logged| logged.entry)
    }

    fn lua(command: &str) -> Option<Entry> {
        entry_of(&format!("+1700000000.123456 [0 lua] {command}"))
    }

    #[test]
    fn a_waiter_joins_shows_that_it_is_alive_and_is_granted() {
        let (name, token) = ("m".to_owned(), "a:1".to_owned());
        let joined = Entry::Joined { name: name.clone(), token: token.clone(), score: 17 };
        assert_eq!(lua(r#""ZADD" "leasehold:{m}:queue" "17" "a:1""#), Some(joined));
        let alive = Entry::Alive { name: name.clone(), token: token.clone(), until: 1_700_000_000_500 };
        assert_eq!(lua(r#""HSET" "leasehold:{m}:waiters" "a:1" "exclusive 2000 600 33 1700000000500""#), Some(alive));
        let left = Entry::Left { name: name.clone(), token: token.clone() };
        assert_eq!(lua(r#""ZREM" "leasehold:{m}:queue" "a:1""#), Some(left.clone()));
        let admitted = |exclusive| {
            let (clock, permits) = (1_700_000_000_123, None);
            Some(Entry::Admitted { name: name.clone(), token: token.clone(), exclusive, clock, permits })
        };
        assert_eq!(lua(r#""SET" "m" "a:1*1700000000123456" "PX" "600""#), admitted(true));
        assert_eq!(lua(r#""ZADD" "leasehold:{m}:readers" "1700000002123" "a:1""#), admitted(false));
        assert_eq!(lua(r#""ZADD" "leasehold:{m}:queue" "-1700000060000" "a:1""#), Some(left));
        assert_eq!(lua(r#""HSET" "m" "a:1" "once 1700000000123456""#), admitted(true));
        assert_eq!(lua(r#""HSET" "m" "a:1" "1700000000123456 10.0.0.7:8080""#), admitted(true));
        let (name, token, value) = (name.clone(), token.clone(), "7-3".to_owned());
        let result = r#""SET" "leasehold:{m}:result" "a:1 1700000000123456 \"7-3\"" "PX" "3600000""#;
        assert_eq!(lua(result), Some(Entry::Stored { name, token, value }));
    }

    #[test]
    fn permits_are_granted_renewed_and_given_back() {
        let (name, token, clock) = ("m".to_owned(), "a:1".to_owned(), 1_700_000_000_123);
        let until = 1_700_000_002_123;
        let counts = Entry::Counts { name: name.clone(), token: token.clone(), until, clock };
        assert_eq!(lua(r#""ZADD" "m" "1700000002123" "a:1""#), Some(counts));
        let permits = Some(Permits { count: 2, fence: 1_700_000_000_123_456 });
        let admitted = Entry::Admitted { name: name.clone(), token: token.clone(), exclusive: false, clock, permits };
        let alone = r#""HSET" "leasehold:{m}:permits" "a:1" "2/5" "fence" "1700000000123456""#;
        assert_eq!(lua(alone), Some(admitted.clone()));
        let among_others =
            r#""HSET" "leasehold:{m}:permits" "a:1" "2/5" "used" "4" "limit" "5" "fence" "1700000000123456""#;
        assert_eq!(lua(among_others), Some(admitted));
        assert_eq!(lua(r#""ZREM" "m" "a:1""#), Some(Entry::Freed { name, token }));
    }

    #[test]
    fn the_label_of_a_client_and_the_script_that_counts_are_recognised() {
        let label = r#"+17.000001 [0 127.0.0.1:5] "SET" "leasehold:client:1f" "rust-0.1" "PX" "86400000""#;
        let (client, text) = ("1f".to_owned(), "rust-0.1".to_owned());
        assert_eq!(entry_of(label), Some(Entry::Labelled { client, label: text }));
        let read =
            r#"+17.000001 [0 127.0.0.1:5] "EVAL" "-- counts permits\nreturn" "2" "m" "leasehold:{m}:permits" "7""#;
        assert_eq!(entry_of(read), Some(Entry::Read { number: 7 }));
    }

    #[test]
    fn other_commands_and_other_clients_don_t_count() {
        assert_eq!(lua(r#""SET" "m" "a:1*17" "KEEPTTL""#), None);
        assert_eq!(lua(r#""SET" "m" "shared 17" "PX" "600""#), None);
        assert_eq!(lua(r#""SET" "leasehold:fence" "17""#), None);
        assert_eq!(lua(r#""HSET" "m" "a:1" "2""#), None);
        assert_eq!(lua(r#""HSET" "leasehold:{m}:permits" "used" "1" "limit" "2""#), None);
        assert_eq!(entry_of(r#"+17.000001 [0 127.0.0.1:5] "ZREM" "leasehold:{m}:queue" "a:1""#), None);
        assert_eq!(entry_of("+OK"), None);
        assert_eq!(entry_of(r#"+17.000001 [0 127.0.0.1:5] "FLUSHALL""#), Some(Entry::Forgot));
    }

    #[test]
    fn a_name_with_a_hash_tag_stays_as_it_is() {
        let joined = Entry::Joined { name: "{m}-a".to_owned(), token: "a:1".to_owned(), score: 17 };
        assert_eq!(lua(r#""ZADD" "leasehold::{m}-a:queue" "17" "a:1""#), Some(joined));
    }

    #[test]
    fn a_lease_that_is_converted_did_not_wait_and_a_waiter_that_the_same_script_grants_did() {
        let mut converting = None;
        let mut read = |client: &str, command: &str| {
            Logged::of(&format!("+17.000001 [0 {client}] {command}"), &mut converting).map(|logged| logged.entry)
        };
        let convert =
            r#""EVALSHA" "1f" "6" "m" "f" "q" "w" "r" "n" "a:1" "a:2" "exclusive" "900" "33" "0" "0" "native""#;
        let admitted = |token: &str| Entry::Admitted {
            name: "m".to_owned(),
            token: token.to_owned(),
            exclusive: true,
            clock: 17_000,
            permits: None,
        };
        assert_eq!(read("127.0.0.1:5", convert), None);
        assert_eq!(read("lua", r#""SET" "m" "a:2 17" "PX" "900""#), None);
        assert_eq!(read("lua", r#""SET" "m" "b:1 18" "PX" "600""#), Some(admitted("b:1")));
        assert_eq!(read("127.0.0.1:5", r#""EVALSHA" "1f" "1" "m""#), None);
        assert_eq!(read("lua", r#""SET" "m" "a:2 17" "PX" "900""#), Some(admitted("a:2")));
    }

    #[test]
    fn words_may_have_quotes_in_them() {
        assert_eq!(words(r#""a \"b\" \\" "c""#), [r#"a "b" \"#, "c"]);
    }
}
