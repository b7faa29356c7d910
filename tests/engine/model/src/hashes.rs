//! Commands for hashes.

use crate::answer::{Answer, Outcome, Refusal};
use crate::keyspace::{Data, Entry, Keyspace};

pub(crate) fn get(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let field = keyspace.hash(words[1])?.and_then(|fields| fields.iter().find(|(field, _)| field == words[2]));
    Ok(field.map_or(Answer::Nil, |(_, value)| Answer::Text(value.clone())))
}

pub(crate) fn len(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    Ok(Answer::Int(keyspace.hash(words[1])?.map_or(0, |fields| fields.len() as i64)))
}

pub(crate) fn get_all(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let fields = keyspace.hash(words[1])?.map(|fields| fields.as_slice()).unwrap_or_default();
    Ok(Answer::List(fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect()))
}

pub(crate) fn set(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    if !words.len().is_multiple_of(2) {
        return Err(Refusal::new("ERR wrong number of arguments for 'hset' command"));
    }
    if keyspace.hash(words[1])?.is_none() {
        keyspace.put(words[1], Entry { data: Data::Hash(Vec::new()), expires_ms: None });
    }
    let mut added = 0;
    if let Some(fields) = keyspace.hash(words[1])? {
        for pair in words[2..].chunks_exact(2) {
            match fields.iter_mut().find(|(field, _)| field == pair[0]) {
                Some((_, value)) => *value = pair[1].to_vec(),
                None => {
                    fields.push((pair[0].to_vec(), pair[1].to_vec()));
                    added += 1;
                }
            }
        }
    }
    Ok(Answer::Int(added))
}

pub(crate) fn delete(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let Some(fields) = keyspace.hash(words[1])? else { return Ok(Answer::Int(0)) };
    let before = fields.len();
    fields.retain(|(field, _)| !words[2..].contains(&field.as_slice()));
    let removed = before - fields.len();
    keyspace.sweep(words[1]);
    Ok(Answer::Int(removed as i64))
}
