use leasehold_lua::{ALL, BATCH, INSPECT, MULTI, RENEW, Script};
use mlua::Lua;

/// Commands with only keys after the name, or with no keys at all.
const MANY_KEYS: [&str; 2] = ["DEL", "EXISTS"];
const NO_KEYS: [&str; 4] = ["TIME", "PUBLISH", "PUBSUB", "SPUBLISH"];

/// The keys of an entry of `batch`, which are parameters of its functions.
const BATCH_KEYS: [&str; 5] = ["name", "fence_key", "queue", "readers", "buried"];

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
                // `multi` takes the same keys for each of its names.
                let base = if script == MULTI { "at + " } else { "" };
                let literal =
                    (1..=6).any(|n| *key == format!("KEYS[{base}{n}]")) || script == BATCH && BATCH_KEYS.contains(key);
                assert!(literal, "{}: {command} touches {key}", script.name);
            }
            assert!(keys.len() == words.len() || !words[keys.len()..].iter().any(|word| word.contains("KEYS[")));
        }
    }
}

#[test]
fn a_batch_gives_each_entry_its_own_keys() {
    let entries = [("acquire", &BATCH_KEYS[..]), ("release", &["name", "queue", "readers"]), ("renew", &["name"])];
    for (entry, keys) in entries {
        let (_, defined) = BATCH.source.split_once(&format!("local function {entry}(")).unwrap();
        let (_, called) = BATCH.source.split_once(&format!("] = {entry}(")).unwrap();
        let (parameters, given) = (split_words(defined), split_words(called));
        let literal: Vec<_> = (1..=keys.len()).map(|n| format!("KEYS[key + {n}]")).collect();
        assert_eq!(parameters[..keys.len()], *keys, "{entry}");
        assert_eq!(given[..keys.len()], literal, "{entry}");
        assert!(given[keys.len()..].iter().all(|word| !word.contains("KEYS")), "{entry}: {given:?}");
        let step = format!("key, arg = key + {},", keys.len());
        assert!(called.lines().take(3).any(|line| line.trim().starts_with(&step)), "{entry}: {step}");
    }
}

#[test]
fn no_number_reaches_the_server_unformatted() {
    // Lua 5.1 loses digits of an unformatted number, and some servers write it as 1e+8.
    let strings = ["'", "KEYS[", "ARGV[", "text(", "string.format("];
    let string_variables = ["token", "waiter", "record", "payload", "live", "mode", "channel", "keep"];
    for script in ALL {
        for (command, words) in commands(script.source) {
            for word in words {
                let is_string = strings.iter().any(|begin| word.starts_with(begin))
                    || string_variables.contains(&word)
                    // In a batch `ttl` is an argument of the script as it came.
                    || script == BATCH && (word == "ttl" || BATCH_KEYS.contains(&word));
                assert!(is_string, "{}: {command} is given {word}, which may be a number", script.name);
            }
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
        "ZSCORE",
    ];
    for script in ALL {
        assert!(!script.source.starts_with("#!"), "{}", script.name);
        for (command, words) in commands(script.source) {
            assert!(
                known.contains(&command),
                "{} uses {command}: is it in 6.2 and in the documented ACL?",
                script.name
            );
            assert!(command != "PEXPIRE" || words.len() == 2, "{}", script.name);
            assert!(command != "SET" || words[2..] == ["'PX'", words[3]], "{}: {words:?}", script.name);
        }
    }
}

#[test]
fn time_is_read_before_anything_is_written() {
    for script in ALL {
        // The fast path returns before this part. The fast path of a release doesn't read the time.
        for path in script.source.splitn(2, "\nend\n") {
            let commands = commands(path);
            let at = |name: &str| commands.iter().position(|(command, _)| *command == name);
            for write in ["SET", "DEL", "ZADD", "HSET", "PEXPIRE", "ZREM"] {
                let late = |wrote| at("TIME").is_some_and(|asked| asked > wrote);
                assert!(!at(write).is_some_and(late), "{}: {write}", script.name);
            }
        }
    }
}

#[test]
fn only_the_scripts_that_change_the_queue_declare_its_keys() {
    let declares = |script: Script, n: usize| script.source.contains(&format!("KEYS[{n}]"));
    assert!((3..=6).all(|n| !declares(RENEW, n)));
    let writes = ["SET", "DEL", "ZADD", "HSET", "PEXPIRE", "ZREM", "HDEL", "ZREMRANGEBYSCORE", "PUBLISH"];
    assert!(commands(INSPECT.source).iter().all(|(command, _)| !writes.contains(command)));
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
