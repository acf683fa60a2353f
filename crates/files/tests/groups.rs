//! Files that belong together.

use std::sync::Arc;

use tinaja_files::Files;
use tinaja_store::contract::bytes_of;
use tinaja_store::{Cache, CacheOptions, Hint, Settings, Store, block_on, engines};

use crate::support::{key, rest};

/// Programs say what is related (HashCache, section 3.5): twenty files of one group are read in a few reads, and without it each
/// is a read of its own.
#[test]
fn files_of_one_group_are_read_together() {
    const FILES: u64 = 20;
    for (group, most_reads) in [(Some(7), FILES / 2), (None, FILES + 2)] {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::new().with(&engines::PREFETCH, 1);
        let options = CacheOptions::new(dir.path()).disk_bytes(32 << 20).settings(settings).memory_bytes(0);
        let (store, files): (Arc<dyn Store>, _) = (Arc::new(Cache::open(options.clone()).unwrap()), Files::default());
        for n in 0..FILES {
            let file = files.create(&store, &key(&n.to_string()), b"", Hint { group, ..Hint::default() }).unwrap();
            files.write(file, &bytes_of(n, 4000)).unwrap();
            files.close(file).unwrap();
        }
        block_on(store.close()).unwrap();
        drop(store);
        let store: Arc<dyn Store> = Arc::new(Cache::open(options).unwrap());
        let before = store.stats().reads;
        for n in 0..FILES {
            let file = files.open(&store, &key(&n.to_string())).unwrap();
            assert_eq!(rest(&files, file, 4096), bytes_of(n, 4000));
            files.close(file).unwrap();
        }
        let reads = store.stats().reads - before;
        println!("group {group:?}: {FILES} files in {reads} reads");
        assert!(reads <= most_reads && (group.is_some() || reads >= FILES), "group {group:?}: {reads} reads");
    }
}
