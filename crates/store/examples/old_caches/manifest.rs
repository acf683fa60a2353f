//! The list of what is in a cache, a line each: readable by whoever has only the list.

use std::path::Path;

use tinaja_store::{Key, Stats, Store, block_on};

/// The largest body that is looked at.
const MOST_BYTES: usize = 16 << 20;

/// What is said of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It must be found.
    There,
    /// It may be found.
    Maybe,
    /// It was removed.
    Gone,
}

/// An object of the list.
#[derive(Clone, Debug)]
pub struct Entry {
    pub word: Word,
    /// Its name; or, without one, its digest: 32 hexadecimal digits.
    pub name: String,
    /// Its head's and its body's bytes and checksums.
    pub sums: String,
}

/// A list: the engine's name, whether there are two disks, whether positions lie apart, what is in it.
pub struct Manifest {
    pub engine: String,
    pub two_disks: bool,
    pub apart: bool,
    pub slots: u64,
    pub entries: Vec<Entry>,
}

/// The key of a name. A third of all have a digest only.
pub fn key(name: &str) -> Key {
    match name.len() {
        32 => Key::from_digest(u128::from_str_radix(name, 16).unwrap().to_be_bytes()),
        _ => Key::from_name(name.as_bytes()),
    }
}

/// Bytes and checksums.
pub fn sums(head: &[u8], body: &[u8]) -> String {
    format!("{} {} {} {}", head.len(), blake3::hash(head).to_hex(), body.len(), blake3::hash(body).to_hex())
}

/// What a store has under a name; or why it cannot be read.
pub fn found(store: &impl Store, name: &str) -> Option<String> {
    let mut hit = block_on(store.find(&key(name)))?;
    let body = block_on(hit.body.collect(MOST_BYTES));
    Some(body.map_or_else(|error| error.to_string(), |body| sums(&hit.head, &body)))
}

impl Manifest {
    /// Whether a store is of the kind that the list is of.
    pub fn is_of(&self, stats: &Stats) -> bool {
        stats.engine == self.engine && stats.slots == self.slots
    }

    pub fn write(&self, path: &Path) {
        let Manifest { engine, two_disks, apart, slots, entries } = self;
        let first = format!("{engine} {two_disks} {apart} {slots}\n");
        let lines = entries.iter().map(|Entry { word, name, sums }| format!("{word:?} {name} {sums}\n"));
        let text: String = std::iter::once(first).chain(lines).collect();
        std::fs::write(path, text).unwrap();
        std::fs::File::open(path).unwrap().sync_all().unwrap();
    }

    pub fn read(path: &Path) -> Manifest {
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines();
        let first: Vec<_> = lines.next().unwrap().split(' ').collect();
        let entries = lines.map(|line| {
            let mut words = line.splitn(3, ' ');
            let mut next = || words.next().unwrap_or_default().to_string();
            let said = next();
            let word = [Word::There, Word::Maybe, Word::Gone].into_iter().find(|word| format!("{word:?}") == said);
            Entry { word: word.unwrap(), name: next(), sums: next() }
        });
        Manifest {
            engine: first[0].into(),
            two_disks: first[1].parse().unwrap(),
            apart: first[2].parse().unwrap(),
            slots: first[3].parse().unwrap(),
            entries: entries.collect(),
        }
    }
}
