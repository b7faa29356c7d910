//! Patterns as Redis has them: `*`, `?`, `[abc]`, `[^a-z]`, and `\` before a literal character.

/// Whether the whole text matches.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on if a match fails: after the last `*`, which then takes one more character.
    let mut retry = None;
    loop {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, t));
            p += 1;
            continue;
        }
        let step = match text.get(t) {
            Some(c) => one(pattern.get(p..).unwrap_or_default(), *c),
            None if p == pattern.len() => return true,
            None => return false,
        };
        match (step, retry) {
            (Some(length), _) => (p, t) = (p + length, t + 1),
            (None, Some((after, from))) => {
                (p, t) = (after, from + 1);
                retry = Some((after, t));
            }
            (None, None) => return false,
        }
    }
}

/// The literal text as a pattern.
pub(crate) fn escape(text: &str) -> String {
    text.chars().flat_map(|c| if "*?[]^-\\".contains(c) { vec!['\\', c] } else { vec![c] }).collect()
}

/// The only text that the pattern matches, if it has no wildcard.
pub(crate) fn literal(pattern: &str) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' | '[' => return None,
            // Redis takes one at the end literally.
            '\\' => text.push(chars.next().unwrap_or(c)),
            _ => text.push(c),
        }
    }
    Some(text)
}

/// How long the first element of the pattern is, if it matches the character.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', literal, ..] => (*literal == c).then_some(2),
        ['[', class @ ..] => {
            let (found, length) = in_class(class, c);
            found.then_some(length + 1)
        }
        [literal, ..] => (*literal == c).then_some(1),
        [] => None,
    }
}

/// Whether the character is in the class, and how long the class is with its `]`. One that is not closed ends with the pattern.
fn in_class(class: &[char], c: char) -> (bool, usize) {
    let negated = class.first() == Some(&'^');
    let (mut found, mut at) = (false, usize::from(negated));
    loop {
        match class.get(at..).unwrap_or_default() {
            [] => return (found != negated, at),
            [']', ..] => return (found != negated, at + 1),
            ['\\', literal, ..] => {
                found |= *literal == c;
                at += 2;
            }
            [from, '-', to, ..] => {
                let (low, high) = (from.min(to), from.max(to));
                found |= (low..=high).contains(&&c);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == c;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_servers::Server;

    use super::*;

    #[test]
    fn a_pattern_without_wildcards_is_one_text() {
        assert_eq!(literal("invoice:42").as_deref(), Some("invoice:42"));
        assert_eq!(literal(r"a\*b").as_deref(), Some("a*b"));
        for pattern in ["*", "a?", "[ab]", r"\a*"] {
            assert_eq!(literal(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_means_what_it_means_to_the_server() -> Result<(), leasehold_servers::Error> {
        let server = Server::start()?;
        let texts = ["a", "b", "-", "^", "]", "[", "ab", "a*b", "a?b", "axxb", "ab:1", "ab:12", "{t}:x", "\\"];
        for text in texts {
            server.cli(&["SET", text, "1"])?;
        }
        let patterns = [
            "*", "?", "a*", "*b", "a\\*b", "a?b", "[ab]", "[^ab]", "[a-b]", "[b-a]", "[\\]]", "[a", "ab:?", "ab:*",
            "*:*", "{t}*", "**b", "a*x*b", "\\\\", "[^", "x",
        ];
        for pattern in patterns {
            let reply = server.cli(&["KEYS", pattern])?;
            let mut theirs: Vec<_> = reply.list().iter().filter_map(|key| key.text()).collect();
            let mut ours: Vec<_> = texts.into_iter().filter(|text| matches(pattern, text)).collect();
            theirs.sort_unstable();
            ours.sort_unstable();
            assert_eq!(ours, theirs, "{pattern}");
        }
        for pattern in patterns {
            if let Some(only) = literal(pattern) {
                assert!(matches(pattern, &only), "{pattern}");
            }
        }
        for text in texts {
            assert_eq!(literal(&escape(text)).as_deref(), Some(text));
            assert!(matches(&escape(text), text), "{text}");
            assert_eq!(texts.iter().filter(|other| matches(&escape(text), other)).count(), 1, "{text}");
        }
        Ok(())
    }
}
