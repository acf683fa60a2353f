//! Bodies that are a function of their key, so that any byte out of place shows.

use std::io::{self, Write};

/// Makes, or checks, the body that belongs to a key: a stream of pseudo-random words seeded by it.
pub struct Pattern {
    state: u64,
    word: [u8; 8],
    used: usize,
}

impl Pattern {
    pub fn of(key: &str) -> Self {
        // FNV-1a: a different stream for each key is all that is asked.
        let seed = key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Pattern {
            state: seed,
            word: [0; 8],
            used: 8,
        }
    }

    /// The next bytes of the body.
    pub fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.used == 8 {
                self.word = self.next_word().to_le_bytes();
                self.used = 0;
            }
            *byte = self.word[self.used];
            self.used += 1;
        }
    }

    /// Whether `bytes` are the next bytes of the body.
    pub fn matches(&mut self, bytes: &[u8]) -> bool {
        let mut expected = [0; 4096];
        bytes.chunks(expected.len()).all(|chunk| {
            let expected = &mut expected[..chunk.len()];
            self.fill(expected);
            chunk == expected
        })
    }

    // SplitMix64.
    fn next_word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The whole body of `key`.
pub fn body(key: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Pattern::of(key).fill(&mut bytes);
    bytes
}

/// Write the first `len` bytes of the body of `key`, in pieces.
pub fn write_body(out: &mut dyn Write, key: &str, len: u64) -> io::Result<()> {
    let mut pattern = Pattern::of(key);
    let mut piece = vec![0; 256 * 1024];
    let mut left = len;
    while left > 0 {
        let now = left.min(piece.len() as u64) as usize;
        pattern.fill(&mut piece[..now]);
        out.write_all(&piece[..now])?;
        left -= now as u64;
    }
    Ok(())
}
