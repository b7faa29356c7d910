//! Builds the texts of the scripts at compile time: it inserts the prelude and leaves out comment lines. The server
//! doesn't need comments, and every program that embeds the engine carries these texts.

/// Marks where a script wants the prelude, on a separate line. The code before it is the script's fast path.
const MARK: &[u8] = b"--@prelude\n";

/// The code of a file, without comment lines.
macro_rules! file {
    ($name:ident, $path:literal) => {
        pub(crate) const $name: &[u8] = {
            const FILE: &[u8] = include_bytes!($path);
            const CODE: [u8; length(FILE)] = code(FILE);
            &CODE
        };
    };
}

// What several scripts share. Each is one text, however many scripts use it.
file!(BASE, "prelude/base.lua");
file!(LOCK, "prelude/lock.lua");
file!(SEMAPHORE, "prelude/semaphore.lua");
file!(REENTRANT, "prelude/reentrant.lua");
file!(QUEUE, "prelude/queue.lua");
const NONE: &[u8] = &[];

/// The script in `<name>.lua`. With a kind: the same script for that kind of lock, with its state from `prelude/` and
/// without the fast path.
macro_rules! script {
    ($name:literal) => {{
        use $crate::embed::{LOCK, before, code, length, prelude};
        const FILE: &[u8] = include_bytes!(concat!($name, ".lua"));
        const BEFORE: [u8; length(before(FILE))] = code(before(FILE));
        $crate::embed::script!(@ $name, FILE, &BEFORE, prelude(FILE, LOCK))
    }};
    ($name:literal, $file:literal, $kind:ident) => {{
        use $crate::embed::{$kind, prelude};
        const FILE: &[u8] = include_bytes!(concat!($file, ".lua"));
        $crate::embed::script!(@ $name, FILE, &[], prelude(FILE, $kind))
    }};
    (@ $name:expr, $file:expr, $before:expr, $prelude:expr) => {{
        use $crate::embed::{after, code, join, length, text, total};
        const AFTER: [u8; length(after($file))] = code(after($file));
        const PARTS: [&[u8]; 5] = {
            let [base, state, queue] = $prelude;
            [$before, base, state, queue, &AFTER]
        };
        const TEXT: [u8; total(PARTS)] = join(PARTS);
        const SHA1: [u8; 40] = $crate::sha1::hex($crate::sha1::digest(&TEXT));
        $crate::Script {
            name: $name,
            source: text(&TEXT),
            parts: [text(PARTS[0]), text(PARTS[1]), text(PARTS[2]), text(PARTS[3]), text(PARTS[4])],
            sha1: text(&SHA1),
        }
    }};
}
pub(crate) use script;

/// The text before the mark. Without a mark, the whole text.
pub(crate) const fn before(file: &[u8]) -> &[u8] {
    match find_mark(file) {
        Some(mark) => file.split_at(mark).0,
        None => file,
    }
}

/// The text after the mark.
pub(crate) const fn after(file: &[u8]) -> &[u8] {
    match find_mark(file) {
        Some(mark) => file.split_at(mark + MARK.len()).1,
        None => &[],
    }
}

/// The three parts of a kind's prelude, if the script wants it.
pub(crate) const fn prelude(file: &[u8], state: &'static [u8]) -> [&'static [u8]; 3] {
    match find_mark(file) {
        Some(_) => [BASE, state, QUEUE],
        None => [NONE; 3],
    }
}

/// The length of the text without comment lines.
pub(crate) const fn length(text: &[u8]) -> usize {
    let (mut kept, mut rest) = (0, text);
    while !rest.is_empty() {
        let (line, next) = rest.split_at(line_length(rest));
        if !is_comment(line) {
            kept += line.len();
        }
        rest = next;
    }
    kept
}

/// The text without comment lines.
pub(crate) const fn code<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut code = [0; N];
    let (mut kept, mut rest) = (0, text);
    while !rest.is_empty() {
        let (line, next) = rest.split_at(line_length(rest));
        if !is_comment(line) {
            copy(line, &mut code, kept);
            kept += line.len();
        }
        rest = next;
    }
    code
}

/// The length of all parts together.
pub(crate) const fn total(parts: [&[u8]; 5]) -> usize {
    parts[0].len() + parts[1].len() + parts[2].len() + parts[3].len() + parts[4].len()
}

/// The parts, one after the other.
pub(crate) const fn join<const N: usize>(parts: [&[u8]; 5]) -> [u8; N] {
    let mut text = [0; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        copy(parts[part], &mut text, at);
        at += parts[part].len();
        part += 1;
    }
    text
}

/// The length of the first line, with its line feed.
const fn line_length(text: &[u8]) -> usize {
    let mut index = 0;
    while index < text.len() {
        index += 1;
        if text[index - 1] == b'\n' {
            break;
        }
    }
    index
}

const fn is_comment(line: &[u8]) -> bool {
    let mut start = 0;
    while start < line.len() && line[start] == b' ' {
        start += 1;
    }
    start + 1 < line.len() && line[start] == b'-' && line[start + 1] == b'-'
}

pub(crate) const fn text(bytes: &[u8]) -> &str {
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a script is not UTF-8"),
    }
}

const fn copy(from: &[u8], to: &mut [u8], at: usize) {
    let mut index = 0;
    while index < from.len() {
        to[at + index] = from[index];
        index += 1;
    }
}

const fn find_mark(file: &[u8]) -> Option<usize> {
    let mut start = 0;
    while start + MARK.len() <= file.len() {
        let mut same = 0;
        while same < MARK.len() && file[start + same] == MARK[same] {
            same += 1;
        }
        if same == MARK.len() {
            return Some(start);
        }
        start += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{BASE, QUEUE, after, before, code, length, text};
    use crate::{ALL, CONVERT, INSPECT, MULTI, RAISE};

    #[test]
    fn scripts_that_ask_for_the_prelude_have_it_once_and_no_mark_is_left() {
        for script in ALL {
            let plain = [RAISE, INSPECT, MULTI].contains(&script) || script.name.ends_with("renew");
            for shared in [BASE, QUEUE] {
                assert_eq!(script.source.matches(text(shared)).count(), usize::from(!plain), "{}", script.name);
            }
            assert!(!script.source.contains("--@"), "{}", script.name);
        }
        assert!(CONVERT.source.contains("'shared'"));
    }

    #[test]
    fn every_script_has_a_name_of_its_own() {
        for script in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == script.name).count(), 1, "{}", script.name);
        }
    }

    #[test]
    fn the_parts_are_the_text() {
        for script in ALL {
            assert_eq!(script.parts.concat(), script.source, "{}", script.name);
        }
    }

    #[test]
    fn the_rest_of_a_script_surrounds_the_prelude() {
        const FILE: &[u8] = b"before\n--@prelude\nafter\n";
        assert_eq!((before(FILE), after(FILE)), (&b"before\n"[..], &b"after\n"[..]));
        assert_eq!((before(b"all\n"), after(b"all\n")), (&b"all\n"[..], &b""[..]));
    }

    #[test]
    fn lines_that_are_comments_are_left_out_and_all_others_stay_as_they_are() {
        const FILE: &[u8] = b"-- head\nlocal a = 1 -- one\n\n  -- inner\n  return a - -1\n-- end";
        const CODE: [u8; length(FILE)] = code(FILE);
        assert_eq!(text(&CODE), "local a = 1 -- one\n\n  return a - -1\n");
    }
}
