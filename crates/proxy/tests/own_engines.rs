//! The proxy over engines that were written in test files alone (the store's `own_engines`): small objects and long ones,
//! hits, removals, and a restart.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, dead_code, missing_docs)]

#[path = "../../store/tests/own_engines/grouped.rs"]
mod grouped;
mod support;
#[path = "../../store/tests/own_engines/tree.rs"]
mod tree;

use std::path::Path;
use std::sync::Arc;

use support::{Origin, Proxy, eventually, reply};
use tinaja_store::{Cache, CacheOptions, EngineRef, Store, block_on, engines};

fn open(dir: &Path, engine: EngineRef) -> Arc<Cache> {
    let engines = engines::built_in().with(&tree::TREE).with(&grouped::GROUPED);
    let options = CacheOptions::new(dir).engine(engine).engines(engines).disk_bytes(64 << 20).memory_bytes(0);
    Arc::new(Cache::open(options).unwrap())
}

fn served_by(engine: EngineRef) {
    let origin = Origin::start(|request, stream| {
        let bytes = if request.path.contains("long") { 3_000_001 } else { 5000 };
        let body: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
        reply(stream, request, 200, "Cache-Control: max-age=600\r\n", &body)
    });
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let paths: Vec<_> = (0..20).map(|n| format!("/{n}")).chain(["/long".to_owned()]).collect();
    let store = open(dir.path(), engine);
    let bodies: Vec<_> = {
        let proxy = Proxy::over(store.clone(), |_| {});
        let bodies = paths.iter().map(|path| proxy.get(&origin.url(path)).body).collect();
        eventually("all is stored", || store.stats().stored == paths.len() as u64);
        bodies
    };
    block_on(store.close()).unwrap();
    drop(store);

    let store = open(dir.path(), engine);
    let proxy = Proxy::over(store.clone(), |_| {});
    for (path, body) in paths.iter().zip(&bodies) {
        let got = proxy.get(&origin.url(path));
        assert!(got.is_hit() && got.body == *body, "{engine} {path}");
    }
    let part = proxy.get_with(&origin.url("/long"), "Range: bytes=2000000-2000009\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &bodies[20][2_000_000..2_000_010]));
    assert_eq!(origin.count(), paths.len());
    assert_eq!((store.stats().engine, store.stats().live_objects), (engine.name, paths.len() as u64));
}

#[test]
fn a_file_an_object() {
    served_by(&tree::TREE);
}

#[test]
fn streamed_by_group() {
    served_by(&grouped::GROUPED);
}
