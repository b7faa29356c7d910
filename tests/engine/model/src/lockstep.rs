//! Compares what two engines did with the same command.

use leasehold_memory::Server;

use crate::Executed;
use crate::text::utf8;

/// # Panics
/// If replies, messages or keys differ.
pub(crate) fn compare(words: &[&[u8]], left: (&Executed, &Server), right: (&Executed, &Server)) {
    let same_reply = match (&left.0.reply, &right.0.reply) {
        (Err(left), Err(right)) => code(left) == code(right),
        (left, right) => left == right,
    };
    if !same_reply || left.0.published != right.0.published || !same_keys(left.1, right.1) {
        let words: Vec<&str> = words.iter().map(|word| utf8(word)).collect();
        let is = |script: &&leasehold_lua::Script| {
            words.get(1).is_some_and(|word| [script.sha1, script.source].contains(word))
        };
        let script = leasehold_lua::ALL.iter().find(is);
        let words = script.map_or(words.join(" "), |script| format!("{} {}", script.name, words[2..].join(" ")));
        panic!(
            "at {} us: {words}\nLua answers  {:?}\nRust answers {:?}\nLua's keys  {:#?}\nRust's keys {:#?}",
            left.1.now_us(),
            left.0,
            right.0,
            shown(left.1),
            shown(right.1)
        );
    }
}

/// The code of an error. What Lua says about a wrong argument is not compared.
fn code(error: &str) -> &str {
    error.split(' ').next().unwrap_or_default()
}

/// Whether all live keys have the same values and TTLs.
fn same_keys(left: &Server, right: &Server) -> bool {
    let now = left.now_us();
    let keys: Vec<&[u8]> = left.keys(now).collect();
    keys.iter().copied().eq(right.keys(now))
        && keys.iter().all(|key| {
            left.expires(now, key) == right.expires(now, key)
                && left.text(now, key) == right.text(now, key)
                && left.members(now, key).eq(right.members(now, key))
                && left.fields(now, key).eq(right.fields(now, key))
        })
}

fn shown(server: &Server) -> Vec<String> {
    let now = server.now_us();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    server
        .keys(now)
        .map(|key| {
            let members: Vec<_> = server.members(now, key).map(|(member, score)| (text(member), score)).collect();
            let fields: Vec<_> = server.fields(now, key).map(|(field, value)| (text(field), text(value))).collect();
            let value = server.text(now, key).map(text);
            format!("{} {value:?} {members:?} {fields:?} until {:?}", text(key), server.expires(now, key))
        })
        .collect()
}
