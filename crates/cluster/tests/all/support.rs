//! Nodes over caches in temporary directories, under one authority.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tempfile::TempDir;
use tinaja_cluster::tls::Files;
use tinaja_cluster::{Comers, Joining, Pooled};
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Hit, Key, Source, Store, block_on};
use tinaja_testkit::nginx::make_certificates;
use tinaja_testkit::wait::eventually;

/// Certificates under one authority, and another one's.
pub fn files(other: bool) -> Files {
    static MADE: [OnceLock<TempDir>; 2] = [OnceLock::new(), OnceLock::new()];
    let dir = MADE[usize::from(other)].get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        make_certificates(dir.path());
        dir
    });
    let file = |name: &str| dir.path().join(name);
    Files { ca: file("ca.pem"), certificate: file("server.pem"), key: file("server.key") }
}

/// A node of that name, with these seeds.
pub fn joining(node: &str, seeds: &[SocketAddr]) -> Joining {
    Joining {
        node: node.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        seeds: seeds.iter().map(ToString::to_string).collect(),
        files: files(false),
        memory_bytes: 4 << 20,
        ..Joining::default()
    }
}

/// A cache without memory of its own, so that what the cluster's memory does is seen.
pub fn cache(dir: &Path) -> Arc<dyn Store> {
    Arc::new(Cache::open(CacheOptions::new(dir).disk_bytes(64 << 20).memory_bytes(0)).unwrap())
}

/// A node over a cache of its own.
pub struct One {
    pub store: Pooled,
    pub below: Arc<dyn Store>,
    _dir: TempDir,
}

impl One {
    pub fn start(joining: Joining) -> One {
        let dir = tempfile::tempdir().unwrap();
        let below = cache(dir.path());
        One { store: Pooled::join(below.clone(), joining, Comers::default()).unwrap(), below, _dir: dir }
    }

    pub fn address(&self) -> SocketAddr {
        self.store.node().address()
    }

    pub fn put(&self, key: &Key, head: &'static str, body: &Bytes) {
        put(&self.store, key, head, body);
    }

    pub fn get(&self, key: &Key) -> Option<(Source, Bytes, Bytes)> {
        get(&self.store, key)
    }

    /// Others that it knows.
    pub fn peers(&self) -> usize {
        block_on(self.store.node().status()).map_or(0, |status| status.peers.len())
    }

    /// Others that know it.
    pub fn known_by(&self) -> usize {
        block_on(self.store.node().status()).map_or(0, |status| status.known_by as usize)
    }

    /// What it has counted under that name.
    pub fn count(&self, name: &str) -> u64 {
        block_on(self.store.node().status()).unwrap().counts[name]
    }
}

pub fn put(store: &dyn Store, key: &Key, head: &'static str, body: &Bytes) {
    let mut writer = store.put(key, Bytes::from_static(head.as_bytes()), Hint::default());
    block_on(writer.write(body.clone()));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
}

pub fn get(store: &dyn Store, key: &Key) -> Option<(Source, Bytes, Bytes)> {
    let Hit { head, source, mut body, .. } = block_on(store.find(key))?;
    Some((source, head, block_on(body.collect(1 << 30)).unwrap()))
}

/// So many nodes that know each other.
pub fn nodes(count: usize, with: impl Fn(Joining) -> Joining) -> Vec<One> {
    let mut nodes: Vec<One> = Vec::new();
    for n in 0..count {
        let seeds: Vec<SocketAddr> = nodes.first().map(One::address).into_iter().collect();
        nodes.push(One::start(with(joining(&format!("node {n}"), &seeds))));
    }
    eventually("all to know each other", || {
        nodes.iter().all(|node| node.peers() == count - 1 && node.known_by() == count - 1)
    });
    nodes
}

/// Have a store write down what only its buffers hold, so that lookups go past them.
pub fn flush(node: &One) {
    block_on(node.store.flush()).unwrap();
}
