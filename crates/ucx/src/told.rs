//! What peers tell each other by another way before they talk by UCX: the address of a worker, the key of some memory.
//!
//! ```text
//! "TjUa" or "TjUk"   u16 major, u16 minor version of UCX   u32 bytes   (a key: u64 address, u64 bytes of memory)   bytes
//! u64 XXH3 of all before
//! ```

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::limits::MAX_TOLD_BYTES;

const OF_WORKER: &[u8; 4] = b"TjUa";
const OF_MEMORY: &[u8; 4] = b"TjUk";
const SUM_BYTES: usize = 8;

/// Where a worker is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) version: (u32, u32),
    pub(crate) bytes: Vec<u8>,
}

/// What some memory is read with. Whoever has it and reaches the machine may read that memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub(crate) version: (u32, u32),
    pub(crate) base: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Address {
    /// To be sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        sealed([&head(OF_WORKER, self.version, &self.bytes)[..], &self.bytes].concat())
    }

    /// What was sent. Errors: [`Error::Foreign`], also where it was another version's.
    pub fn from_bytes(told: &[u8]) -> Result<Address, Error> {
        let foreign = |why: &str| Error::Foreign { what: "address", why: why.to_owned() };
        let (version, rest) = opened(told, OF_WORKER).map_err(foreign)?;
        if rest.is_empty() {
            return Err(foreign("is empty"));
        }
        Ok(Address { version, bytes: rest.to_vec() })
    }
}

impl Key {
    /// To be sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let memory = [self.base.to_le_bytes(), self.memory_bytes.to_le_bytes()].concat();
        let bytes = [&memory[..], &self.bytes].concat();
        sealed([&head(OF_MEMORY, self.version, &bytes)[..], &bytes].concat())
    }

    /// What was sent. Errors: [`Error::Foreign`].
    pub fn from_bytes(told: &[u8]) -> Result<Key, Error> {
        let foreign = |why: &str| Error::Foreign { what: "key", why: why.to_owned() };
        let (version, rest) = opened(told, OF_MEMORY).map_err(foreign)?;
        let (base, rest) = rest.split_first_chunk().ok_or_else(|| foreign("is cut off"))?;
        let (memory_bytes, bytes) = rest.split_first_chunk().ok_or_else(|| foreign("is cut off"))?;
        let (base, memory_bytes) = (u64::from_le_bytes(*base), u64::from_le_bytes(*memory_bytes));
        if bytes.is_empty() || base.checked_add(memory_bytes).is_none() {
            return Err(foreign("says what cannot be"));
        }
        Ok(Key { version, base, memory_bytes, bytes: bytes.to_vec() })
    }

    /// Bytes of the memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

/// Whether a peer's version of UCX goes with this one: what addresses and keys hold changes between them.
pub(crate) fn same_version(what: &'static str, theirs: (u32, u32), ours: (u32, u32)) -> Result<(), Error> {
    if theirs == ours {
        return Ok(());
    }
    let why = format!("is of UCX {}.{}, and here is {}.{}: install one version", theirs.0, theirs.1, ours.0, ours.1);
    Err(Error::Foreign { what, why })
}

fn head(magic: &[u8; 4], (major, minor): (u32, u32), bytes: &[u8]) -> [u8; 12] {
    let mut head = [0; 12];
    let short = |number: u32| u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes();
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let fields = magic.iter().chain(&short(major)).chain(&short(minor)).chain(&length).copied().collect::<Vec<u8>>();
    head.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    head
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = xxh3_64(&bytes).to_le_bytes();
    bytes.extend_from_slice(&sum);
    bytes
}

/// The version, and what follows the head.
fn opened<'a>(told: &'a [u8], magic: &[u8; 4]) -> Result<((u32, u32), &'a [u8]), &'static str> {
    if told.len() > MAX_TOLD_BYTES {
        return Err("is too long");
    }
    let (bytes, sum) =
        told.len().checked_sub(SUM_BYTES).and_then(|at| told.split_at_checked(at)).ok_or("is cut off")?;
    let (head, rest) = bytes.split_first_chunk::<12>().ok_or("is cut off")?;
    let &[a, b, c, d, e, f, g, h, i, j, k, l] = head;
    if [a, b, c, d] != *magic {
        return Err("is something else");
    }
    if u32::from_le_bytes([i, j, k, l]) as usize != rest.len() || xxh3_64(bytes).to_le_bytes() != *sum {
        return Err("is damaged or cut off");
    }
    Ok(((u16::from_le_bytes([e, f]).into(), u16::from_le_bytes([g, h]).into()), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key { version: (1, 13), base: 0x7F00_0000_0000, memory_bytes: 1 << 20, bytes: vec![7; 90] }
    }

    #[test]
    fn what_is_told_is_what_is_heard() {
        let address = Address { version: (1, 13), bytes: vec![3; 200] };
        assert_eq!(Address::from_bytes(&address.to_bytes()).unwrap(), address);
        assert_eq!(Key::from_bytes(&key().to_bytes()).unwrap(), key());
    }

    /// UCX would take what it is given for an address, whatever it is.
    #[test]
    fn what_is_not_whole_is_refused() {
        let told = key().to_bytes();
        for end in 0..told.len() {
            assert!(Key::from_bytes(&told[..end]).is_err(), "{end} bytes");
        }
        for bit in 0..told.len() * 8 {
            let mut flipped = told.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Key::from_bytes(&flipped).is_err(), "bit {bit}");
        }
        assert!(Address::from_bytes(&told).is_err(), "a key is no address");
        assert!(Address::from_bytes(&vec![0; MAX_TOLD_BYTES + 1]).is_err());
    }

    #[test]
    fn another_version_is_told_which() {
        assert!(same_version("key", (1, 13), (1, 13)).is_ok());
        let error = same_version("key", (1, 22), (1, 13)).unwrap_err().to_string();
        assert!(error.contains("UCX 1.22") && error.contains("here is 1.13"), "{error}");
    }
}
