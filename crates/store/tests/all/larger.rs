//! What a cache says that twice its disk or memory would find, beside a cache that has it.

use tinaja_store::device::Medium;
use tinaja_store::{Cache, EngineRef, Settings, Store, engines};

use crate::support::random::Random;
use crate::support::{get, open_planned, plan_with, put, sound};

const MIB: u64 = 1 << 20;
const OBJECTS: f64 = 30_000.0;
const REQUESTS: usize = 100_000;

fn cache(engine: EngineRef, disk_bytes: u64) -> Cache {
    open_planned(&*plan_with(engine, &Settings::new(), disk_bytes), sound(&Medium::zeroed(disk_bytes as usize)))
        .unwrap()
}

/// Which object is asked for at each step: a few often, many seldom; the same each time.
fn asked() -> impl Iterator<Item = u64> {
    let mut random = Random(1);
    std::iter::repeat_with(move || random.part().powi(3)).map(|part| (part * OBJECTS) as u64).take(REQUESTS)
}

/// The share of requests that were hits.
fn hits(cache: &Cache) -> f64 {
    let hits = asked().filter(|&object| {
        let found = get(cache, object).is_some();
        if !found {
            let _ = put(cache, object, 1, 2000 + (object % 7) as usize * 1000);
        }
        found
    });
    hits.count() as f64 / REQUESTS as f64
}

/// It is an estimate for LRU. An engine that evicts in the order of writing gains about as much; one that keeps what is worth most has
/// less left to gain.
#[test]
fn twice_the_disk_finds_what_it_was_said_to_find() {
    for (engine, off) in [(engines::HASHCACHE_LOG, 0.04), (engines::GENERATIONAL, 0.1)] {
        let (small, large) = (cache(engine, 32 * MIB), cache(engine, 64 * MIB));
        let more = hits(&large);
        let more = more - hits(&small);
        let said = small.stats().larger;
        println!("{engine}: {more:.3} more of the requests, said were {:.3} by {}", said.by_disk().0, said.sampled);
        assert!(said.sampled > 2000 && more > 0.05, "{engine}: {more} {said:?}");
        assert!((said.by_disk().0 - more).abs() < off, "{engine}: {more} and {said:?}");
        // Less is left to be found the larger the cache is.
        assert!(large.stats().larger.by_disk().0 < said.by_disk().0);
    }
}
