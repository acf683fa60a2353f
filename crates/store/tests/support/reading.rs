//! A program that reads the disk itself, as the external indexing interface says.

use tinaja_store::contract::bytes_of;
use tinaja_store::external::{Index, Object, Step};
use tinaja_store::{Key, block_on};

/// Carry out every read that is asked for. The object or part, and how many reads it took.
pub fn follow(mut step: Step, damage: impl Fn(&mut [u8])) -> (Option<Step>, usize) {
    let mut reads = 0;
    loop {
        match step {
            Step::Missing => return (None, reads),
            Step::Object(_) | Step::Part(_) => return (Some(step), reads),
            Step::Read(read) => {
                reads += 1;
                assert!(reads < 20, "it goes round in circles");
                assert_eq!(read.offset() % read.align().max(1), 0);
                let mut bytes = read.read().unwrap();
                damage(&mut bytes);
                step = block_on(read.verify(&bytes)).unwrap();
            }
        }
    }
}

pub fn find(index: &Index, key: &Key) -> (Option<Object>, usize) {
    let (step, reads) = follow(block_on(index.locate(key)).unwrap(), |_| ());
    match step {
        Some(Step::Object(object)) => (Some(object), reads),
        None => (None, reads),
        other => panic!("{other:?}"),
    }
}

/// The version of an object found, with its bytes compared.
pub fn version(index: &Index, n: u64, object: &Object) -> u64 {
    let version: u64 = std::str::from_utf8(object.head()).unwrap().parse().unwrap();
    let mut all = Vec::new();
    while (all.len() as u64) < object.length() {
        let step = block_on(index.part(object, all.len() as u64)).unwrap();
        let (Some(Step::Part(part)), _) = follow(step, |_| ()) else { panic!("part of {n} is missing") };
        assert_eq!(part.at(), all.len() as u64);
        part.bytes().iter().for_each(|piece| all.extend_from_slice(piece));
    }
    assert!(all == bytes_of(n * 1000 + version, all.len()), "wrong bytes for object {n}");
    version
}
