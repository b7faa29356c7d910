//! Makes the texts of the scripts at compile time: the prelude is put in, and comments are left out. A server runs no comments,
//! and everybody who embeds the engine carries these texts.

/// Where a script wants the prelude: a line of its own. Code before it is the script's fast path.
const MARK: &[u8] = b"--@prelude\n";

const PRELUDE_FILE: &[u8] = include_bytes!("prelude.lua");
const PRELUDE_CODE: [u8; length(PRELUDE_FILE)] = code(PRELUDE_FILE);
/// What several scripts share: one text, however many of them have it.
const PRELUDE: &[u8] = &PRELUDE_CODE;

/// The script in `<name>.lua`.
macro_rules! script {
    ($name:literal) => {{
        use $crate::embed::{after, before, code, join, length, prelude, text};
        const FILE: &[u8] = include_bytes!(concat!($name, ".lua"));
        const BEFORE: [u8; length(before(FILE))] = code(before(FILE));
        const AFTER: [u8; length(after(FILE))] = code(after(FILE));
        const PARTS: [&[u8]; 3] = [&BEFORE, prelude(FILE), &AFTER];
        const TEXT: [u8; PARTS[0].len() + PARTS[1].len() + PARTS[2].len()] = join(PARTS);
        const SHA1: [u8; 40] = $crate::sha1::hex($crate::sha1::digest(&TEXT));
        $crate::Script {
            name: $name,
            source: text(&TEXT),
            parts: [text(PARTS[0]), text(PARTS[1]), text(PARTS[2])],
            sha1: text(&SHA1),
        }
    }};
}
pub(crate) use script;

/// What stands before the mark; without a mark that is all.
pub(crate) const fn before(file: &[u8]) -> &[u8] {
    match find_mark(file) {
        Some(mark) => file.split_at(mark).0,
        None => file,
    }
}

/// What stands after the mark.
pub(crate) const fn after(file: &[u8]) -> &[u8] {
    match find_mark(file) {
        Some(mark) => file.split_at(mark + MARK.len()).1,
        None => &[],
    }
}

/// The prelude, if the script wants it.
pub(crate) const fn prelude(file: &[u8]) -> &'static [u8] {
    match find_mark(file) {
        Some(_) => PRELUDE,
        None => &[],
    }
}

/// How long the text is without the lines that are comments.
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

/// The text without the lines that are comments.
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

/// The parts, one after the other.
pub(crate) const fn join<const N: usize>(parts: [&[u8]; 3]) -> [u8; N] {
    let mut text = [0; N];
    copy(parts[0], &mut text, 0);
    copy(parts[1], &mut text, parts[0].len());
    copy(parts[2], &mut text, parts[0].len() + parts[1].len());
    text
}

/// With its line feed.
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
    use super::{PRELUDE, after, before, code, length, text};
    use crate::{ALL, INSPECT, RENEW};

    #[test]
    fn scripts_that_ask_for_the_prelude_have_it_once_and_no_mark_is_left() {
        for script in ALL {
            let expected = if script == RENEW || script == INSPECT { 0 } else { 1 };
            assert_eq!(script.source.matches(text(PRELUDE)).count(), expected, "{}", script.name);
            assert!(!script.source.contains("--@"), "{}", script.name);
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
