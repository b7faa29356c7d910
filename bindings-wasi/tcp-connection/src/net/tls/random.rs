//! The random numbers of TLS are the host's.

#![allow(unsafe_code, reason = "the macro defines a symbol by its name")]

use crate::bindings::wasi::random::random::get_random_u64;

getrandom::register_custom_getrandom!(fill);

fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    for chunk in bytes.chunks_mut(8) {
        let random = get_random_u64().to_le_bytes();
        chunk.copy_from_slice(random.get(..chunk.len()).unwrap_or_default());
    }
    Ok(())
}
