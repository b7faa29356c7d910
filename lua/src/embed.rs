//! Puts the prelude into a script's text at compile time.

/// Where a script wants the prelude: a line of its own. Code before it is the script's fast path.
const MARK: &[u8] = b"--@prelude\n";
const PRELUDE: &[u8] = include_bytes!("prelude.lua");

/// The script in `<name>.lua`.
macro_rules! script {
    ($name:literal) => {{
        const FILE: &[u8] = include_bytes!(concat!($name, ".lua"));
        const TEXT: [u8; $crate::embed::length(FILE)] = $crate::embed::expand(FILE);
        const SHA1: [u8; 40] = $crate::sha1::hex($crate::sha1::digest(&TEXT));
        $crate::Script { name: $name, source: $crate::embed::text(&TEXT), sha1: $crate::embed::text(&SHA1) }
    }};
}
pub(crate) use script;

/// How long the script is with the prelude in place of the mark.
pub(crate) const fn length(file: &[u8]) -> usize {
    match find_mark(file) {
        Some(_) => file.len() - MARK.len() + PRELUDE.len(),
        None => file.len(),
    }
}

/// The script with the prelude in place of the mark; without a mark it is the file as it is.
pub(crate) const fn expand<const N: usize>(file: &[u8]) -> [u8; N] {
    let mut text = [0; N];
    let Some(mark) = find_mark(file) else {
        copy(file, &mut text, 0);
        return text;
    };
    let (before, rest) = file.split_at(mark);
    copy(before, &mut text, 0);
    copy(PRELUDE, &mut text, mark);
    copy(rest.split_at(MARK.len()).1, &mut text, mark + PRELUDE.len());
    text
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
    use super::{length, text};
    use crate::{ALL, INSPECT, RENEW};

    const SHARED_CODE: &str = text(super::PRELUDE);

    #[test]
    fn scripts_that_ask_for_the_prelude_have_it_once_and_no_mark_is_left() {
        for script in ALL {
            let expected = if script == RENEW || script == INSPECT { 0 } else { 1 };
            assert_eq!(script.source.matches(SHARED_CODE).count(), expected, "{}", script.name);
            assert!(!script.source.contains("--@"), "{}", script.name);
        }
    }

    #[test]
    fn the_rest_of_a_script_surrounds_the_prelude_unchanged() {
        const FILE: &[u8] = b"before\n--@prelude\nafter\n";
        const TEXT: [u8; length(FILE)] = super::expand(FILE);
        let (before, after) = text(&TEXT).split_once(SHARED_CODE).unwrap();
        assert_eq!((before, after), ("before\n", "after\n"));
    }
}
