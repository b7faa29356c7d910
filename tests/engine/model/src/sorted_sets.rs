//! Commands for sorted sets.

use std::ops::Range;

use crate::answer::{Answer, Outcome, Refusal};
use crate::keyspace::{Data, Entry, Keyspace};
use crate::number;
use crate::sorted_set::SortedSet;

pub(crate) fn card(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    Ok(Answer::Int(keyspace.sorted(words[1])?.map_or(0, |set| set.members().len() as i64)))
}

pub(crate) fn score(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let score = keyspace.sorted(words[1])?.and_then(|set| set.score(words[2]));
    Ok(score.map_or(Answer::Nil, |score| Answer::Text(number::score_text(score))))
}

pub(crate) fn rank(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let rank = keyspace.sorted(words[1])?.and_then(|set| set.rank(words[2]));
    Ok(rank.map_or(Answer::Nil, |rank| Answer::Int(rank as i64)))
}

/// Without options such as NX and GT, because no script needs them.
pub(crate) fn add(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    if !words.len().is_multiple_of(2) {
        return Err(Refusal::SYNTAX);
    }
    for pair in words[2..].chunks_exact(2) {
        number::float(pair[0])?;
    }
    if keyspace.sorted(words[1])?.is_none() {
        keyspace.put(words[1], Entry { data: Data::Sorted(SortedSet::default()), expires_ms: None });
    }
    let mut added = 0;
    if let Some(set) = keyspace.sorted(words[1])? {
        for pair in words[2..].chunks_exact(2) {
            added += i64::from(set.insert(number::float(pair[0])?, pair[1]));
        }
    }
    Ok(Answer::Int(added))
}

pub(crate) fn remove(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let Some(set) = keyspace.sorted(words[1])? else { return Ok(Answer::Int(0)) };
    let removed = words[2..].iter().filter(|member| set.remove(member)).count();
    keyspace.sweep(words[1]);
    Ok(Answer::Int(removed as i64))
}

pub(crate) fn remove_by_score(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let (low, high) = (number::bound(words[2])?, number::bound(words[3])?);
    let Some(set) = keyspace.sorted(words[1])? else { return Ok(Answer::Int(0)) };
    let removed = set.remove_all(set.between(low, high));
    keyspace.sweep(words[1]);
    Ok(Answer::Int(removed as i64))
}

pub(crate) fn count(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let (low, high) = (number::bound(words[2])?, number::bound(words[3])?);
    Ok(Answer::Int(keyspace.sorted(words[1])?.map_or(0, |set| set.between(low, high).len() as i64)))
}

pub(crate) fn range(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let (start, stop) = (number::integer(words[2])?, number::integer(words[3])?);
    list(keyspace, words, |set| set.ranks(start, stop))
}

pub(crate) fn range_by_score(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let (low, high) = (number::bound(words[2])?, number::bound(words[3])?);
    list(keyspace, words, |set| set.between(low, high))
}

fn list(keyspace: &mut Keyspace, words: &[&[u8]], ranks: impl Fn(&SortedSet) -> Range<usize>) -> Outcome {
    let with_scores = match words.get(4) {
        None => false,
        Some(option) if option.eq_ignore_ascii_case(b"WITHSCORES") => true,
        Some(_) => return Err(Refusal::SYNTAX),
    };
    let mut items = Vec::new();
    if let Some(set) = keyspace.sorted(words[1])? {
        for (score, member) in &set.members()[ranks(set)] {
            items.push(member.clone());
            if with_scores {
                items.push(number::score_text(*score));
            }
        }
    }
    Ok(Answer::List(items))
}
