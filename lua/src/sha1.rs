//! SHA-1 (RFC 3174) at compile time: the server names a script by it, so it is a name here and no protection.

/// The digest of a whole text.
pub(crate) const fn digest(text: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let blocks = (text.len() + 8) / 64 + 1;
    let mut block = 0;
    while block < blocks {
        state = compress(state, padded_block(text, block, blocks));
        block += 1;
    }
    let mut bytes = [0; 20];
    let mut index = 0;
    while index < 20 {
        bytes[index] = state[index / 4].to_be_bytes()[index % 4];
        index += 1;
    }
    bytes
}

/// The digest as 40 lower-case hexadecimal digits.
pub(crate) const fn hex(digest: [u8; 20]) -> [u8; 40] {
    let digits = b"0123456789abcdef";
    let mut text = [0; 40];
    let mut index = 0;
    while index < 20 {
        text[2 * index] = digits[(digest[index] >> 4) as usize];
        text[2 * index + 1] = digits[(digest[index] & 15) as usize];
        index += 1;
    }
    text
}

/// The text is followed by a bit, zeros, and in the last eight bytes its length in bits.
const fn padded_block(text: &[u8], block: usize, blocks: usize) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut index = 0;
    while index < 64 {
        let at = block * 64 + index;
        if at < text.len() {
            bytes[index] = text[at];
        } else if at == text.len() {
            bytes[index] = 0x80;
        } else if block + 1 == blocks && index >= 56 {
            bytes[index] = (text.len() as u64 * 8).to_be_bytes()[index - 56];
        }
        index += 1;
    }
    bytes
}

const fn compress(state: [u32; 5], block: [u8; 64]) -> [u32; 5] {
    let mut words = [0u32; 80];
    let mut t = 0;
    while t < 80 {
        words[t] = if t < 16 {
            u32::from_be_bytes([block[4 * t], block[4 * t + 1], block[4 * t + 2], block[4 * t + 3]])
        } else {
            (words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16]).rotate_left(1)
        };
        t += 1;
    }
    let [mut a, mut b, mut c, mut d, mut e] = state;
    t = 0;
    while t < 80 {
        let (mix, constant) = match t / 20 {
            0 => ((b & c) | (!b & d), 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6u32),
        };
        let next = a.rotate_left(5).wrapping_add(mix).wrapping_add(e).wrapping_add(words[t]).wrapping_add(constant);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        t += 1;
    }
    [
        state[0].wrapping_add(a),
        state[1].wrapping_add(b),
        state[2].wrapping_add(c),
        state[3].wrapping_add(d),
        state[4].wrapping_add(e),
    ]
}

#[cfg(test)]
mod tests {
    use super::{digest, hex};

    #[test]
    fn digests_match_the_published_vectors() {
        for (text, expected) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
        ] {
            assert_eq!(core::str::from_utf8(&hex(digest(text.as_bytes()))), Ok(expected));
        }
    }

    #[test]
    fn a_text_of_any_length_is_padded_right() {
        // Around the lengths where the padding takes one more block, and a text of a million bytes.
        for (length, expected) in [
            (55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
            (56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
            (64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
            (1_000_000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
        ] {
            static TEXT: [u8; 1_000_000] = [b'a'; 1_000_000];
            assert_eq!(core::str::from_utf8(&hex(digest(&TEXT[..length]))), Ok(expected), "{length}");
        }
    }
}
