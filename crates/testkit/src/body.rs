//! Bodies that are a function of their key, so that any byte out of place shows.

use std::io::{self, Write};

/// Makes, or checks, the body that belongs to a key: a stream of pseudo-random words seeded by it.
pub struct Pattern {
    seed: u64,
    at: u64,
}

impl Pattern {
    /// The body of this key, from its beginning.
    pub fn of(key: &str) -> Self {
        // FNV-1a: a different stream for each key is all that is asked.
        let seed = key
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Pattern { seed, at: 0 }
    }

    /// From this byte on.
    pub fn from(self, at: u64) -> Self {
        Pattern { at, ..self }
    }

    /// The next bytes of the body.
    pub fn fill(&mut self, out: &mut [u8]) {
        // Word by word wherever possible: some tests move gigabytes.
        let (mut word, skip) = (self.at / 8, (self.at % 8) as usize);
        self.at += out.len() as u64;
        let mut rest = out;
        if skip > 0 {
            let head = rest.len().min(8 - skip);
            let (first, others) = rest.split_at_mut(head);
            first.copy_from_slice(&self.word(word)[skip..skip + head]);
            rest = others;
            word += 1;
        }
        let mut words = rest.chunks_exact_mut(8);
        for to in &mut words {
            to.copy_from_slice(&self.word(word));
            word += 1;
        }
        let tail = words.into_remainder();
        let len = tail.len();
        tail.copy_from_slice(&self.word(word)[..len]);
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

    // SplitMix64, by position.
    fn word(&self, index: u64) -> [u8; 8] {
        let mut z = self.seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
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
