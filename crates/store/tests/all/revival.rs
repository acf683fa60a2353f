//! Far more objects than there are slots, each in many versions, put, removed, updated and looked for at random, with clean
//! stops and kills between: in every engine what is found is the last version, or after a kill one not older than what a
//! flush covered; and what was removed stays away.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tinaja_store::device::Medium;
use tinaja_store::{Commit, EngineRef, Store, Updated, block_on};

use crate::support::random::Random;
use crate::support::{self, get, has_table, key, open_as, put, sound};

for_every_engine!(no_older_version_comes_back);

const KEYS: u64 = 1500;

/// What may be found of an object: versions from `oldest` to `newest`, or nothing.
#[derive(Clone, Copy, Default)]
struct May {
    oldest: u64,
    newest: u64,
}

fn no_older_version_comes_back(engine: EngineRef) {
    support::put_in_groups();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into();
    let seed: u64 = std::env::var("TINAJA_SEED").ok().map_or_else(now, |seed| seed.parse().expect("a number"));
    println!("TINAJA_SEED={seed}");
    let mut random = Random(seed);
    let mut medium = Medium::zeroed(if has_table(engine) { 4 << 20 } else { 3 << 20 });
    let mut store = open_as(engine, sound(&medium)).unwrap();
    let mut may = vec![May::default(); KEYS as usize];
    // As of the last flush or removal: what a kill may bring back.
    let mut flushed = vec![0; KEYS as usize];
    let (mut version, mut found, mut asked, mut kills) = (0, 0, 0, 0);
    for _ in 0..30_000 {
        // A few keys are used much more than the others.
        let n = if random.below(2) == 0 { random.below(60) } else { random.below(KEYS) };
        let at = n as usize;
        match random.below(1000) {
            0..450 => {
                version += 1;
                let size = if random.below(40) == 0 { 20_000 } else { random.below(3000) };
                if matches!(put(&store, n, version, size as usize), Commit::Stored { .. }) {
                    may[at] = May { oldest: version, newest: version };
                }
            }
            450..880 => {
                asked += 1;
                let May { oldest, newest } = may[at];
                match get(&store, n) {
                    None => {}
                    Some(version) => {
                        assert!(
                            (oldest..=newest).contains(&version) && version > 0,
                            "{n} is {version}, {oldest}..{newest}"
                        );
                        // It has been found: nothing older may be from now on.
                        may[at].oldest = version;
                        found += 1;
                    }
                }
            }
            880..930 => {
                block_on(store.remove(&key(n))).unwrap();
                may[at] = May { oldest: version + 1, newest: 0 };
                flushed[at] = version + 1;
            }
            930..980 => {
                // The head says the version, and the body goes by it: so the same head, written anew.
                let same = |head: &Bytes| Some(Bytes::copy_from_slice(head));
                let updated = block_on(store.update_head(&key(n), Box::new(same))).unwrap();
                assert!(updated != Updated::Done || may[at].newest > 0, "{n} was removed and is updated");
            }
            980..995 => {
                block_on(store.flush()).unwrap();
                flushed.iter_mut().zip(&may).for_each(|(flushed, may)| *flushed = may.oldest.max(*flushed));
            }
            995..998 => {
                block_on(store.close()).unwrap();
                store = open_as(engine, sound(&medium)).unwrap();
                flushed.iter_mut().zip(&may).for_each(|(flushed, may)| *flushed = may.oldest.max(*flushed));
            }
            _ => {
                // Killed: what was written is there, and nothing else.
                kills += 1;
                medium = medium.copy();
                store = open_as(engine, sound(&medium)).unwrap();
                may.iter_mut().zip(&flushed).for_each(|(may, flushed)| may.oldest = *flushed);
            }
        }
    }
    println!("{engine}: {found} of {asked} found, {kills} kills");
    assert!(found > asked / 8 && kills > 10);
}
