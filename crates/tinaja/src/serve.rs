//! `tinaja serve`: a store, a proxy over it, and an orderly end.

use std::io::{Write, stdout};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tinaja_pingora::TinajaStorage;
use tinaja_proxy::{Config, Mode, Rules};
use tinaja_store::{Cache, CacheOptions, Store, block_on};

use crate::flags::Serve;
use crate::place;
use crate::welcome::Welcome;

/// Run the proxy until a signal asks it to stop; then write down what is not yet on disk.
///
/// Errors: the cache cannot be opened, an address cannot be listened on, the access log cannot be written, or the last
/// objects could not be written down.
pub fn serve(flags: Serve) -> Result<()> {
    raise_open_files();
    let cache_dir = flags.cache.clone().map_or_else(place::default_cache_dir, Ok)?;
    let (disk_bytes, disk_why) = disk(flags.disk, &cache_dir)?;
    let options =
        CacheOptions { disk_bytes, memory_bytes: flags.memory, engine: flags.engine, ..CacheOptions::new(&cache_dir) };
    let store: Arc<dyn Store> = Arc::new(Cache::open(options)?);

    let mut welcome = Welcome {
        listen: Vec::new(),
        origin: flags.origin.as_ref().map(ToString::to_string),
        cache_dir,
        disk_bytes: store.stats().capacity_bytes,
        disk_why,
        memory_bytes: flags.memory,
    };
    let served = tinaja_proxy::serve(config(flags), TinajaStorage::new(store.clone()), |addresses| {
        welcome.listen = addresses.to_vec();
        // A closed standard output keeps nobody from serving.
        let _ = stdout().write_all(welcome.text().as_bytes());
    });
    // Whatever ended the service, what is stored is kept.
    let closed = block_on(store.close()).context("the last objects could not be written to disk");
    served?;
    closed
}

fn config(flags: Serve) -> Config {
    let cores = available_parallelism().map_or(1, NonZero::get);
    Config {
        listen: flags.listen,
        mode: flags.origin.map_or(Mode::Forward, |origin| Mode::Reverse { origin }),
        workers: flags.workers.map_or(cores, usize::from),
        access_log: flags.access_log.0,
        rules: Rules { allow_destinations: flags.allow_destination, allow_connect_ports: flags.allow_connect_port },
        ..Config::default()
    }
}

/// How much disk to ask for, if any, and why so much.
fn disk(asked: Option<u64>, dir: &Path) -> Result<(Option<u64>, &'static str)> {
    Ok(match asked {
        Some(bytes) => (Some(bytes), "set by --disk"),
        None if Cache::exists(dir) => (None, "as it was made"),
        None => (Some(place::untold_disk_bytes(dir)?), "a quarter of what is free, 10 GiB at most; --disk sets it"),
    })
}

/// Each client and each origin is an open file, and the usual limit of 1024 is few; the system allows more on request.
fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}
