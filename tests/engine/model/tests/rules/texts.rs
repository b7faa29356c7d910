use leasehold_lua::{ACQUIRE_FAST, ALL, BATCH, INSPECT, MULTI, RENEW, Script};
use mlua::Lua;

/// Commands with only keys after the name, or with no keys at all.
const MANY_KEYS: [&str; 2] = ["DEL", "EXISTS"];
const NO_KEYS: [&str; 4] = ["TIME", "PUBLISH", "PUBSUB", "SPUBLISH"];

#[test]
fn every_script_compiles() {
    for script in ALL {
        Lua::new().load(script.source).set_name(script.name).into_function().unwrap();
    }
}

#[test]
fn every_command_names_its_keys_as_literal_keys_n() {
    for script in ALL {
        for (command, words) in commands(script.source) {
            let keys: &[&str] = match command {
                _ if NO_KEYS.contains(&command) => &[],
                _ if MANY_KEYS.contains(&command) => &words,
                _ => &words[..1],
            };
            for key in keys {
                // `multi` and `batch` take the same keys for each of their names.
                let base = if script == MULTI { "at + " } else { "key + " };
                let many = [MULTI, BATCH].contains(&script) && (1..=4).any(|n| *key == format!("KEYS[{base}{n}]"));
                let last = [MULTI, BATCH].contains(&script) && *key == "KEYS[#KEYS]";
                let literal = many || last || (1..=6).any(|n| *key == format!("KEYS[{n}]"));
                assert!(literal, "{}: {command} touches {key}", script.name);
            }
            assert!(keys.len() == words.len() || !words[keys.len()..].iter().any(|word| word.contains("KEYS[")));
        }
    }
}

#[test]
fn a_batch_gives_each_entry_its_own_keys() {
    let entries = [
        ("acquire", 2, 3),
        ("release", 1, 2),
        ("renew", 1, 3),
        ("share", 3, 3),
        ("unshare", 2, 2),
        ("permit", 3, 4),
        ("unpermit", 3, 2),
        ("renew-reentrant", 1, 3),
        ("acquire-reentrant", 2, 3),
        ("release-reentrant", 1, 2),
        ("renew-share", 2, 3),
        ("renew-permit", 2, 3),
    ];
    for (entry, keys, arguments) in entries {
        let (_, branch) = BATCH.source.split_once(&format!("what == '{entry}'")).unwrap();
        let (branch, _) = branch.split_once("\n  else").unwrap();
        for (list, base, most) in [("KEYS", "key", keys), ("ARGV", "arg", arguments)] {
            let begin = format!("{list}[");
            let used: Vec<_> = branch.split(&begin).skip(1).map(|rest| rest.split_once(']').unwrap().0).collect();
            let known: Vec<_> = (1..=most).map(|n| format!("{base} + {n}")).collect();
            assert!(
                !used.is_empty() && used.iter().all(|used| known.contains(&(*used).to_owned())),
                "{entry}: {branch}"
            );
        }
        let step = match keys == arguments {
            true => format!("key, arg = key + {keys}"),
            false => format!("key, arg = key + {keys}, arg + {arguments}"),
        };
        assert!(branch.contains(&step), "{entry}: {step}");
    }
}

#[test]
fn no_number_reaches_the_server_unformatted() {
    // Lua 5.1 loses digits of an unformatted number, and some servers write it as 1e+8.
    let strings = ["'", "KEYS[", "ARGV[", "text(", "string.format(", "string.match(", "unpack(", "(table.unpack"];
    let string_variables =
        ["token", "waiter", "record", "payload", "live", "mode", "channel", "holder", "mark", "held_fence", "field"];
    for script in ALL {
        // There the clock and the fences are texts.
        let texts: &[&str] = match script.name {
            "acquire-fast" => &["us", "last", "fence"],
            "batch" => &["us", "last", "fence", "ttl", "wanted", "limit"],
            "acquire" => &["first", "since"],
            "release" => &["first", "us", "last", "ms"],
            "multi" => &["part.token", "part.mode", "part.limit", "ends", "fence", "other"],
            _ => &[],
        };
        for (command, words) in commands(script.source) {
            for part in words.iter().flat_map(|word| word.split(" .. ")) {
                let is_string = strings.iter().any(|begin| part.starts_with(begin))
                    || string_variables.contains(&part)
                    || texts.contains(&part);
                assert!(is_string, "{}: {command} is given {part}, which may be a number", script.name);
            }
        }
    }
}

#[test]
fn what_the_fast_paths_hold_as_texts_is_made_by_format() {
    for script in [ACQUIRE_FAST, BATCH] {
        for variable in ["us", "fence"] {
            let is_text =
                |value: &str| ["string.format('%", "us\n", "false, "].iter().any(|begin| value.starts_with(begin));
            let assigned = script.source.split(&format!("{variable} = ")).skip(1).collect::<Vec<_>>();
            assert!(!assigned.is_empty());
            assert!(assigned.iter().all(|value| is_text(value)), "{}: {variable}", script.name);
        }
    }
}

#[test]
fn a_script_uses_no_command_or_option_that_redis_6_2_lacks() {
    let known = [
        "DEL",
        "EXISTS",
        "GET",
        "HDEL",
        "HGET",
        "HGETALL",
        "HLEN",
        "HMGET",
        "HSET",
        "PEXPIRE",
        "PTTL",
        "PUBLISH",
        "PUBSUB",
        "SET",
        "SPUBLISH", // by `pcall`: the only one that 6.2 lacks
        "TIME",
        "TYPE",
        "ZADD",
        "ZCARD",
        "ZCOUNT",
        "ZRANGE",
        "ZRANGEBYSCORE",
        "ZRANK",
        "ZREM",
        "ZREMRANGEBYSCORE",
        "ZREVRANK",
        "ZSCORE",
    ];
    for script in ALL {
        assert!(!script.source.starts_with("#!"), "{}", script.name);
        for (command, words) in commands(&with_time(script.source)) {
            assert!(
                known.contains(&command),
                "{} uses {command}: is it in 6.2 and in the documented ACL?",
                script.name
            );
            assert!(command != "PEXPIRE" || words.len() == 2, "{}", script.name);
            let options = if command == "SET" { &words[2..] } else { &[] };
            assert!(
                matches!(options, [] | ["'PX'", _] | ["'KEEPTTL'"] | ["'KEEPTTL'", "'GET'"]),
                "{}: {words:?}",
                script.name
            );
        }
    }
}

#[test]
fn time_is_read_before_anything_is_written() {
    for script in ALL {
        let source = with_time(script.source);
        let commands = commands(&source);
        let at = |name: &str| commands.iter().position(|(command, _)| *command == name);
        for write in ["SET", "DEL", "ZADD", "HSET", "PEXPIRE", "ZREM"] {
            let late = |wrote| at("TIME").is_some_and(|asked| asked > wrote);
            assert!(!at(write).is_some_and(late), "{}: {write}", script.name);
        }
    }
}

#[test]
fn only_the_scripts_that_change_the_queue_declare_its_keys() {
    let declares = |script: Script, n: usize| script.source.contains(&format!("KEYS[{n}]"));
    assert!((3..=6).all(|n| !declares(RENEW, n)));
    let writes = ["SET", "DEL", "ZADD", "HSET", "PEXPIRE", "ZREM", "HDEL", "ZREMRANGEBYSCORE", "PUBLISH"];
    assert!(commands(&with_time(INSPECT.source)).iter().all(|(command, _)| !writes.contains(command)));
}

/// The text without what runs only where the server refuses `TIME`: see `lua/src/prelude/clock.lua`.
fn with_time(source: &str) -> String {
    let mut parts = source.split("if clock.err then\n");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, rest) = part
            .split_once("\n  clock = { math.floor(ms / 1000), ms % 1000 * 1000 + 999 }\nend\n")
            .expect("the same everywhere");
        text += rest;
    }
    assert_eq!(text.matches("'TIME'").count(), source.matches("if clock.err then").count());
    text
}

/// Every `redis.call` and `redis.pcall`: the command's name and its arguments as source text.
fn commands(source: &str) -> Vec<(&str, Vec<&str>)> {
    let calls = source.match_indices("call(").filter(|(at, _)| source[..*at].ends_with(['.', 'p']));
    calls
        .map(|(at, open)| {
            let words = split_words(&source[at + open.len()..]);
            (words[0].trim_matches('\''), words[1..].to_vec())
        })
        .collect()
}

/// The arguments up to the closing bracket, split at commas outside inner brackets.
fn split_words(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut start, mut words) = (0, false, 0, Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' => depth += 1,
            ')' if depth == 0 => {
                words.push(text[start..at].trim());
                return words;
            }
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                words.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    panic!("a call without end: {text}");
}
