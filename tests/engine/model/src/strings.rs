//! Commands for strings.

use crate::answer::{Answer, Outcome, Refusal};
use crate::keyspace::{Data, Entry, Keyspace};
use crate::number;

pub(crate) fn get(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    Ok(keyspace.text(words[1])?.map_or(Answer::Nil, |text| Answer::Text(text.clone())))
}

/// `SET key value [NX | XX] [GET] [EX s | PX ms | KEEPTTL]`. NX together with GET is refused, as in Redis 6.2.
pub(crate) fn set(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let (mut only_new, mut only_old, mut answer_old, mut keeps, mut ms) = (false, false, false, false, None);
    let mut options = words[3..].iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => only_new = true,
            b"XX" => only_old = true,
            b"GET" => answer_old = true,
            b"KEEPTTL" if ms.is_none() => keeps = true,
            unit @ (b"PX" | b"EX") if ms.is_none() && !keeps => {
                let amount = number::integer(options.next().ok_or(Refusal::SYNTAX)?)?;
                let factor = if unit == b"EX" { 1000 } else { 1 };
                ms = Some(u64::try_from(amount).ok().and_then(|amount| amount.checked_mul(factor)));
            }
            _ => return Err(Refusal::SYNTAX),
        }
    }
    if only_new && (only_old || answer_old) {
        return Err(Refusal::SYNTAX);
    }
    let expires_ms = match ms {
        None if keeps => keyspace.entry(words[1]).and_then(|entry| entry.expires_ms),
        None => None,
        Some(Some(ms)) if ms > 0 => Some(keyspace.now_ms().checked_add(ms).ok_or(INVALID_TIME)?),
        Some(_) => return Err(INVALID_TIME),
    };
    let old = if answer_old { keyspace.text(words[1])?.cloned() } else { None };
    let exists = keyspace.entry(words[1]).is_some();
    let refused = (only_new && exists) || (only_old && !exists);
    if !refused {
        keyspace.put(words[1], Entry { data: Data::Text(words[2].to_vec()), expires_ms });
    }
    Ok(match (answer_old, refused) {
        (true, _) => old.map_or(Answer::Nil, Answer::Text),
        (false, true) => Answer::Nil,
        (false, false) => Answer::Status("OK"),
    })
}

const INVALID_TIME: Refusal = Refusal::new("ERR invalid expire time in 'set' command");
