//! Making a cache: some 500 objects of all sizes, some of them written anew, given another head, or removed.

use std::path::Path;

use bytes::Bytes;
use tinaja_store::{Cache, Commit, Hint, Removed, Store, Updated, block_on};

use crate::manifest::{Entry, Manifest, Word, found, key, sums};
use crate::recipes::Recipe;

const OBJECTS: usize = 500;
/// One of many extents; and one whose length nobody said.
const LARGE: [(usize, usize, bool); 2] = [(100, 1_500_000, true), (300, 777_777, false)];
const BODIES: [usize; 11] = [0, 1, 300, 1000, 1500, 3000, 4000, 7900, 8192, 20_000, 70_000];
const HEADS: [usize; 5] = [80, 0, 400, 7, 3000];

struct Object {
    name: String,
    head: Bytes,
    body: Bytes,
    hint: Hint,
}

/// The same bytes each time.
fn bytes(seed: u64, length: usize) -> Bytes {
    let mut all = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut all);
    all.into()
}

/// An object by its number, in one of its versions.
fn object(number: usize, version: u64) -> Object {
    let seed = number as u64 * 1000 + version;
    let large = LARGE.into_iter().find(|(at, ..)| *at == number);
    let body_bytes = large.map_or(BODIES[(number + version as usize) % BODIES.len()], |(_, bytes, _)| bytes);
    let is_announced = large.map_or(!number.is_multiple_of(4), |(.., said)| said);
    let body = bytes(2 * seed, body_bytes);
    let name = match number % 3 {
        0 => format!("{:032x}", u128::from(blake3::hash(&number.to_le_bytes()).as_bytes()[0]) << 64 | number as u128),
        _ => format!("http://www.example.net/page/{}/object/{number}", number / 10),
    };
    let expected_bytes = is_announced.then_some(body.len() as u64);
    let hint = Hint { group: Some(number as u64 / 10), expected_bytes, ..Hint::default() };
    Object { name, head: bytes(2 * seed + 1, HEADS[(number + version as usize) % HEADS.len()]), body, hint }
}

/// Store it. Whether it was stored.
fn put(cache: &Cache, Object { name, head, body, hint }: &Object) -> bool {
    let mut writer = cache.put(&key(name), head.clone(), *hint);
    for from in (0..body.len()).step_by(100_000) {
        block_on(writer.write(body.slice(from..body.len().min(from + 100_000))));
    }
    matches!(block_on(writer.commit()), Commit::Stored { .. })
}

/// Make one, with its list, and end as its recipe says.
pub fn make(dir: &Path, recipe: &Recipe) {
    let dir = dir.join(&recipe.name);
    std::fs::create_dir_all(&dir).unwrap();
    let cache = Cache::open(recipe.options(&dir)).unwrap();
    let mut entries = Vec::new();
    let stored = fill(&cache, recipe, &mut entries);
    block_on(cache.flush()).unwrap();
    // What comes after the flush may be found after a kill or not.
    let late: Vec<_> = (0..20).map(|number| object(OBJECTS + 20_000 + number, 0)).collect();
    if recipe.killed {
        late.iter().for_each(|object| assert!(put(&cache, object)));
        entries.extend(late.into_iter().map(|Object { name, head, body, .. }| Entry {
            word: Word::Maybe,
            name,
            sums: sums(&head, &body),
        }));
    }
    // And what is being written when the process ends never was.
    let unfinished = object(OBJECTS + 30_000, 0);
    let mut writer = cache.put(&key(&unfinished.name), unfinished.head, Hint::default());
    block_on(writer.write(bytes(1, 1_000_000)));
    entries.push(Entry { word: Word::Gone, name: unfinished.name, sums: String::new() });
    let mut lost = 0;
    for (name, sums) in stored {
        match found(&cache, &name) {
            Some(there) => {
                assert_eq!(there, sums, "{name}");
                entries.push(Entry { word: Word::There, name, sums });
            }
            None => lost += 1,
        }
    }
    let stats = cache.stats();
    let (engine, two_disks, apart) = (stats.engine.to_string(), recipe.two_disks, recipe.apart);
    assert_eq!(engine, recipe.engine);
    let manifest = Manifest { engine, two_disks, apart, slots: stats.slots, entries };
    let large = manifest.entries.iter().filter(|entry| entry.sums.contains(" 1500000 ")).count();
    println!("{}: {} objects, {large} large; {lost} evicted", recipe.name, manifest.entries.len());
    assert!(large > 0);
    manifest.write(&dir.join("manifest"));
    if recipe.killed {
        std::process::abort();
    }
    drop(writer);
    block_on(cache.close()).unwrap();
}

/// Fill it. What it was given last under each name, and of what was removed it is noted.
fn fill(cache: &Cache, recipe: &Recipe, entries: &mut Vec<Entry>) -> Vec<(String, String)> {
    if recipe.laps {
        // Some 11 KiB each: twice the disk.
        for number in 0..6000 {
            put(cache, &object(OBJECTS + number, 0));
        }
    }
    let mut stored = Vec::new();
    // Those of many extents come last: a bin has room for one, and others would take theirs.
    let is_large = |number: &usize| LARGE.iter().any(|(at, ..)| at == number);
    let (large, small): (Vec<_>, Vec<_>) = (0..OBJECTS).partition(is_large);
    for number in small.into_iter().chain(large) {
        let mut last = object(number, 0);
        assert!(put(cache, &last), "{number}");
        if number % 43 == 5 {
            last = object(number, 1);
            assert!(put(cache, &last), "{number} anew");
        }
        if number % 37 == 5 {
            let head = bytes(number as u64, 200);
            let new = head.clone();
            if block_on(cache.update_head(&key(&last.name), Box::new(move |_| Some(new)))).unwrap() == Updated::Done {
                last.head = head;
            }
        }
        if number % 41 == 5 {
            let removed = block_on(cache.remove(&key(&last.name))).unwrap();
            assert_eq!(removed, Removed::Gone);
            entries.push(Entry { word: Word::Gone, name: last.name, sums: String::new() });
        } else {
            stored.push((last.name, sums(&last.head, &last.body)));
        }
    }
    stored
}
