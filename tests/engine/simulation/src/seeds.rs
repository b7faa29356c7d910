//! The fixed list of seeds, which every run replays.

use crate::theme::Theme;

const LIST: &str = include_str!("../seeds.txt");

/// A seed of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedSeed {
    /// The seed.
    pub seed: u64,
    /// Its theme. None if the seed draws its own.
    pub theme: Option<Theme>,
}

/// Every seed of the list.
///
/// # Errors
/// If a line is wrong.
pub fn fixed() -> Result<Vec<FixedSeed>, String> {
    LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(read).collect()
}

fn read(line: &str) -> Result<FixedSeed, String> {
    let wrong = || format!("seeds.txt: `{line}` is not a seed, a theme or -, and a reason");
    let mut words = line.splitn(3, ' ');
    let (Some(seed), Some(theme), Some(_)) = (words.next(), words.next(), words.next()) else { return Err(wrong()) };
    let seed = seed.parse().map_err(|_| wrong())?;
    match (theme, Theme::named(theme)) {
        ("-", _) => Ok(FixedSeed { seed, theme: None }),
        (_, Some(theme)) => Ok(FixedSeed { seed, theme: Some(theme) }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_a_seed() {
        let seeds = fixed().unwrap();
        assert!(seeds.contains(&FixedSeed { seed: 275, theme: Some(Theme::Hot) }), "{seeds:?}");
    }

    #[test]
    fn a_line_without_a_theme_or_a_reason_is_refused() {
        for line in ["7", "7 -", "seven - why", "7 nothing why"] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
