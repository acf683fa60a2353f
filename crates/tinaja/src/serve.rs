//! `tinaja serve`: a store, a proxy over it, and an orderly end.

use std::io::{Write, stdout};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tinaja_pingora::TinajaStorage;
use tinaja_proxy::{Config, Mode, Rules, Server};
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
    let (disk_bytes, disk_why) = disk(&flags, &cache_dir)?;
    let mut options = CacheOptions::new(&cache_dir);
    options.disk_bytes = disk_bytes;
    options.memory_bytes = flags.memory;
    options.engine = flags.engine;
    let store: Arc<dyn Store> = Arc::new(Cache::open(options)?);

    let origin = flags.origin.as_ref().map(ToString::to_string);
    let memory_bytes = flags.memory;
    let server = Server::bind(config(flags), TinajaStorage::new(store.clone()))?;
    let listen = server.addresses().to_vec();
    let welcome = Welcome {
        listen,
        origin,
        cache_dir,
        disk_bytes,
        disk_why,
        memory_bytes,
    };
    // A closed standard output keeps nobody from serving.
    let _ = stdout().write_all(welcome.text().as_bytes());

    let served = server.run();
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
        rules: Rules {
            allow_destinations: flags.allow_destination,
            allow_connect_ports: flags.allow_connect_port,
        },
        ..Config::default()
    }
}

/// How much disk the cache takes, and why so much.
fn disk(flags: &Serve, dir: &Path) -> Result<(u64, &'static str)> {
    if let Some(bytes) = flags.disk {
        return Ok((bytes, "set by --disk"));
    }
    // A cache keeps the size it was made with. One that cannot be looked at is opened next, and says why not.
    if let Ok((made_with, _)) = Cache::inspect(dir) {
        return Ok((
            made_with.disk_bytes,
            "as it was made; --disk makes another size in another directory",
        ));
    }
    Ok((
        place::untold_disk_bytes(dir)?,
        "a quarter of what is free, 10 GiB at most; --disk sets it",
    ))
}

/// Each client and each origin is an open file, and the usual limit of 1024 is few; the system allows more on request.
fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    ) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}
