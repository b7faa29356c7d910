//! Commands: anything that a program sends to the server in memory.

use leasehold_core::Scalar;
use leasehold_memory::Server;

use crate::RANDOM;

const NOW_US: u64 = 1_800_000_000_000_000;
const MOST_COMMANDS: usize = 200;

/// Each line is a command, with one space between words. `@MS` before a command lets time pass. `$sha:NAME` and
/// `$text:NAME` stand for a script of leasehold, and `~` for a space inside a word.
///
/// The server does not panic. It refuses with a code, and a refused command changes nothing, except for a script. No key
/// is empty, and none is there after its time.
#[test]
fn commands() {
    bolero::check!(name = "commands").with_iterations(RANDOM).for_each(|input| {
        let mut server = Server::default();
        let mut now = NOW_US;
        for line in input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(MOST_COMMANDS) {
            let mut words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            if let Some(ms) = words[0].strip_prefix(b"@") {
                let ms = std::str::from_utf8(ms).ok().and_then(|ms| ms.parse::<u32>().ok()).unwrap_or(1);
                now += u64::from(ms) * 1_000;
                words.remove(0);
            }
            let words: Vec<Vec<u8>> = words.into_iter().map(filled_in).collect();
            run(&mut server, now, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    });
}

fn run(server: &mut Server, now: u64, words: &[&[u8]]) {
    server.advance(now).expect("time goes on");
    let before = snapshot(server, now);
    let executed = server.execute(now, words).expect("time goes on");
    let after = snapshot(server, now);
    let shown = || words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
    if let Err(text) = &executed.reply {
        let code = text.split(' ').next().unwrap_or_default();
        let is_code = code.len() >= 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
        assert!(is_code, "{}: the refusal has no code: {text:?}", shown());
        let is_script = words.first().is_some_and(|name| name.to_ascii_uppercase().starts_with(b"EVAL"));
        assert!(is_script || before == after, "{}: refused ({text}), and it changed\n{before:?}\n{after:?}", shown());
        assert!(is_script || executed.published.is_empty(), "{}: refused, and published", shown());
    }
    for Key { key, expires, text, members, fields } in &after {
        let is_empty = text.is_none() && members.is_empty() && fields.is_empty();
        assert!(!is_empty, "{}: {key:?} is empty", shown());
        assert!(
            expires.is_none_or(|at| at.saturating_add(1_000) > now),
            "{}: {key:?} is there after its time",
            shown()
        );
        let in_order = members.is_sorted_by(|one, next| (one.1, &one.0) < (next.1, &next.0));
        assert!(in_order, "{}: {members:?}", shown());
    }
}

#[derive(Debug, PartialEq)]
struct Key {
    key: Vec<u8>,
    expires: Option<u64>,
    text: Option<Vec<u8>>,
    members: Vec<(Vec<u8>, f64)>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

fn snapshot(server: &Server, now: u64) -> Vec<Key> {
    let key = |key: &[u8]| Key {
        key: key.to_vec(),
        expires: server.expires(now, key),
        text: server.text(now, key).map(<[u8]>::to_vec),
        members: server.members(now, key).map(|(member, score)| (member.to_vec(), score)).collect(),
        fields: server.fields(now, key).map(|(field, value)| (field.to_vec(), value.to_vec())).collect(),
    };
    server.keys(now).map(key).collect()
}

fn filled_in(word: &[u8]) -> Vec<u8> {
    let script = |name: &[u8]| leasehold_lua::ALL.iter().find(|script| script.name.as_bytes() == name);
    let digest = word.strip_prefix(b"$sha:").and_then(script).map(|script| script.sha1.as_bytes());
    let text = word.strip_prefix(b"$text:").and_then(script).map(|script| script.source.as_bytes());
    let spaced = || word.iter().map(|byte| if *byte == b'~' { b' ' } else { *byte }).collect();
    digest.or(text).map_or_else(spaced, <[u8]>::to_vec)
}

/// The corpus names scripts, so a script that is renamed must be renamed there.
#[test]
fn the_corpus_runs_every_script() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/__fuzz__/commands/corpus");
    let files = std::fs::read_dir(place).expect("a corpus").map(|file| std::fs::read(file.expect("a file").path()));
    let corpus = files.map(|bytes| bytes.expect("a file")).collect::<Vec<_>>().join(&b'\n');
    let corpus = String::from_utf8_lossy(&corpus).into_owned();
    let mut server = Server::default();
    for script in leasehold_lua::ALL {
        let is_there = corpus.contains(&format!("$text:{} ", script.name));
        assert!(is_there, "add a call of `{}` to the corpus", script.name);
        let text = filled_in(format!("$text:{}", script.name).as_bytes());
        let loaded = server.execute(NOW_US, &[b"SCRIPT", b"LOAD", &text]);
        let digest = loaded.expect("time goes on").reply;
        assert_eq!(digest, Ok(leasehold_core::Reply::One(Scalar::Text(script.sha1.into()))), "{}", script.name);
    }
}
