//! The objects: a name and a body of each number, made without copying.

use std::sync::Arc;

use bytes::Bytes;
use tinaja_store::contract::bytes_of;

/// Objects of one size, or of many. Bodies are pieces of one random text, so that the measured time is not spent making them.
#[derive(Clone)]
pub struct Objects {
    text: Arc<Bytes>,
    /// Bytes of a body; on average, where they are of many sizes.
    pub size: usize,
    mixed: bool,
}

const TEXT_BYTES: usize = 16 << 20;

impl Objects {
    /// Objects with bodies of so many bytes.
    pub fn of(size: usize) -> Self {
        Objects { text: Arc::new(bytes_of(1, TEXT_BYTES)), size, mixed: false }
    }

    /// Objects of 256 bytes to 64 KiB, as many between each power of two and the next: 4 KiB in the middle, and 11.5 KiB on
    /// average.
    pub fn of_many_sizes() -> Self {
        Objects { size: 11_770, mixed: true, ..Objects::of(0) }
    }

    /// Bytes of one body.
    pub fn size_of(&self, number: u64) -> usize {
        let share = (number.wrapping_mul(0xD134_2543_DE82_EF95) >> 11) as f64 / (1_u64 << 53) as f64;
        if self.mixed { (256.0 * 256_f64.powf(share)) as usize } else { self.size }
    }

    /// What both caches are given as the key.
    pub fn name(number: u64) -> Vec<u8> {
        format!("http://example.net/{number}").into_bytes()
    }

    /// The body of an object.
    pub fn body(&self, number: u64) -> Bytes {
        let start = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize % (TEXT_BYTES - self.size_of(number));
        self.text.slice(start..start + self.size_of(number))
    }

    /// Whether this is the body. Both caches have verified every byte; the ends show that it is the right one.
    pub fn is_body(&self, number: u64, body: &[u8]) -> bool {
        let right = self.body(number);
        body.len() == right.len() && body[..16] == right[..16] && body[body.len() - 16..] == right[right.len() - 16..]
    }

    /// Bytes of name and body.
    pub fn payload_bytes(&self, number: u64) -> u64 {
        (Objects::name(number).len() + self.size_of(number)) as u64
    }

    /// What an object takes on foyer's disk: its header, two lengths, key and value, rounded up to 4 KiB; on average.
    pub fn bytes_on_foyer(&self) -> u64 {
        on_foyer(self.size)
    }

    /// The same of one object.
    pub fn one_on_foyer(&self, number: u64) -> u64 {
        on_foyer(self.size_of(number))
    }
}

fn on_foyer(size: usize) -> u64 {
    (32 + 16 + 40 + size as u64).next_multiple_of(4096)
}
