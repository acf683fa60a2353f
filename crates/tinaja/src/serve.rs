//! `tinaja serve`: a store, a proxy over it, and an orderly end.

use std::io::{Write, stdout};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tinaja_pingora::TinajaStorage;
use tinaja_proxy::{Config, Listener, Rule, Rules};
use tinaja_store::{Cache, CacheOptions, Store, block_on};

use crate::flags::Serve;
use crate::place;
use crate::report::shown;
use crate::welcome::Welcome;

/// Run the proxy until a signal asks it to stop; then write down what is not yet on disk.
///
/// Errors: the cache cannot be opened, an address cannot be listened on, the access log cannot be written, or the last
/// objects could not be written down.
pub fn serve(flags: Serve) -> Result<()> {
    raise_open_files();
    let dirs = place::cache_dirs(flags.cache.clone())?;
    let (disk_bytes, disk_why) = disk(flags.disk, &dirs)?;
    let mut more_dirs = dirs.clone();
    let first = more_dirs.remove(0);
    let (memory_bytes, engine) = (flags.memory, flags.engine);
    let options = CacheOptions { disk_bytes, memory_bytes, engine, more_dirs, ..CacheOptions::new(first) };
    let store: Arc<dyn Store> = Arc::new(Cache::open(options)?);

    let config = config(flags);
    let mut welcome = Welcome {
        listeners: config.listeners.clone(),
        cache: shown(&dirs),
        disk_bytes: store.stats().capacity_bytes,
        disk_why,
        memory_bytes,
    };
    let served = tinaja_proxy::serve(config, TinajaStorage::new(store.clone()), |addresses| {
        for (listener, address) in welcome.listeners.iter_mut().zip(addresses) {
            listener.address = *address;
        }
        // A closed standard output keeps nobody from serving.
        let _ = stdout().write_all(welcome.text().as_bytes());
    });
    // Whatever ended the service, what is stored is kept.
    let closed = block_on(store.close()).context("the last objects could not be written to disk");
    served?;
    closed
}

fn config(flags: Serve) -> Config {
    let destinations = flags.allow_destination.into_iter().map(Rule::allow_destination);
    let rules: Vec<_> =
        destinations.chain(flags.allow_connect_port.into_iter().map(Rule::allow_connect_port)).collect();
    let listener = |address| match &flags.origin {
        None => Listener { rules: Rules::from(rules.clone()), ..Listener::forward(address) },
        Some(origin) => Listener::reverse(address, origin.clone()),
    };
    let cores = available_parallelism().map_or(1, NonZero::get);
    Config {
        listeners: flags.listen.into_iter().map(listener).collect(),
        workers: flags.workers.map_or(cores, usize::from),
        access_log: flags.access_log.0,
        access_log_format: flags.access_log_format,
        ..Config::default()
    }
}

/// How much disk to ask for, if any, and why so much.
fn disk(asked: Option<u64>, dirs: &[PathBuf]) -> Result<(Option<u64>, &'static str)> {
    let new = dirs.iter().find(|dir| !Cache::exists(dir));
    Ok(match (asked, new) {
        (Some(bytes), _) => (Some(bytes), "set by --disk"),
        (None, None) => (None, "as it was made"),
        (None, Some(_)) if dirs.len() > 1 => bail!("say with --disk SIZE how much of each directory's disk to use"),
        (None, Some(new)) => {
            (Some(place::untold_disk_bytes(new)?), "a quarter of what is free, 10 GiB at most; --disk sets it")
        }
    })
}

/// Each client and each origin is an open file, and the usual limit of 1024 is few; the system allows more on request.
fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}
