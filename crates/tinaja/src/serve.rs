//! `tinaja serve`: a store, a proxy over it, and an orderly end.

use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use tinaja_proxy::{Config, Opener, Predecessor, Reload, Service, Switch, known_clock};
use tinaja_store::{Cache, CacheOptions, Clock, Store, block_on, is_block_device};

use crate::cluster::OwnNode;
use crate::heap;
use crate::limits;
use crate::log::LogFile;
use crate::notify;
use crate::place;
use crate::report::shown;
use crate::sandbox;
use crate::settings::Settings;
use crate::tune;
use crate::upgrade;
use crate::welcome::Welcome;

/// Run the proxy until a signal asks it to stop, or another process takes over; then write down what is not yet on disk.
/// `read` reads the settings again, when another signal asks for that. With `take_over` it goes on where the server that
/// runs on the same cache ends. `log` is opened anew when whoever rotates logs asks.
///
/// Errors: the settings say that the server shuts itself in, and the kernel cannot do that; the cache cannot be opened, an address cannot be listened on, the access log cannot be written, there is nobody
/// to take over from, or the last objects could not be written down.
pub fn serve(
    settings: Settings,
    take_over: bool,
    log: Option<LogFile>,
    read: impl Fn() -> Result<Settings> + Send + 'static,
) -> Result<()> {
    limits::raise(&settings);
    limits::fits(&settings)?;
    // Before there are threads, which would be outside.
    sandbox::enter(&settings)?;
    if !take_over {
        // Before anybody asks how large it is.
        Cache::settle(&cache_options(&settings, None)).map_err(place::with_flags)?;
    }
    let (disk_bytes, disk_why) = disk_bytes(&settings)?;
    if disk_why == OTHER_SIZE {
        tracing::warn!(
            "the cache keeps the size that it was created with: disk is another, and `tinaja resize` changes it"
        );
    }
    // What is stored has ages by the time of day, and machines without a battery start at one that is past.
    let clock = settings.cache.first().map_or(Clock::system(), |dir| known_clock(dir, Clock::system()));
    heap::give_back(&clock);
    let options = cache_options(&settings, disk_bytes).clock(clock.clone());
    let (node, neighbours, nodes) = OwnNode::new(settings.cluster.as_ref())?;
    let open: Opener = {
        let (options, node, joining) = (options.clone(), node.clone(), settings.cluster.clone());
        Arc::new(move || {
            let cache: Arc<dyn Store> = Arc::new(Cache::open(options.clone()).map_err(place::with_flags)?);
            let Some(joining) = joining.clone() else { return Ok(cache) };
            // Whoever takes over serves already: without the cluster rather than not at all.
            Ok(node.join(cache.clone(), joining).unwrap_or_else(|why| {
                tracing::error!(%why, "serving without the cluster until the next start");
                cache
            }))
        })
    };
    // Settings of no use are found before anybody is asked for anything.
    tinaja_proxy::check(&settings.proxy, &clock)?;
    settings.cluster.as_ref().map_or(Ok(()), |joining| joining.check(&clock))?;
    if !take_over && settings.cache.iter().any(|dir| !Cache::exists(dir)) {
        // A start that fails for a port leaves no cache behind.
        tinaja_proxy::can_listen(&settings.proxy)?;
    }
    let predecessor = take_over.then(|| Predecessor::ask(&settings.cache)).transpose()?;
    let cache = match predecessor {
        Some(_) => Switch::waiting(clock),
        None => {
            let cache: Arc<dyn Store> =
                Arc::new(Cache::open(tune::of_new_cache(options, &settings, disk_bytes)).map_err(place::with_flags)?);
            Switch::holding(match settings.cluster.clone() {
                Some(joining) => node.join(cache, joining)?,
                None => cache,
            })
        }
    };
    let mut welcome = Welcome {
        listeners: settings.proxy.listeners.clone(),
        cache: shown(&settings.cache),
        stats: (!take_over).then(|| cache.stats()),
        disk_why,
    };
    // Where there is a directory: a cache can also be a whole device.
    let control = settings.cache.first().filter(|dir| dir.is_dir()).cloned();
    let began = settings.clone();
    let again = move || match read() {
        Ok(settings) => Ok(Reload { later: waiting(&began, &settings), config: settings.proxy }),
        Err(error) => Err(format!("{error:#}")),
    };
    let config = Config { control, ..settings.proxy };
    let ready = |addresses: &[SocketAddr]| {
        for (listener, address) in welcome.listeners.iter_mut().zip(addresses) {
            listener.address = *address;
        }
        // A closed standard output keeps nobody from serving.
        let _ = stdout().write_all(welcome.text().as_bytes());
        let listen: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        notify::ready(&format!("listening on {}", listen.join(", ")));
    };
    let handed_over = Arc::new(AtomicBool::new(false));
    let handed = handed_over.clone();
    let service = Service {
        cache: cache.clone(),
        dirs: settings.cache,
        open,
        reload: Box::new(again),
        reopen: Box::new(move || {
            log.as_ref().inspect(|log| log.reopen());
        }),
        predecessor,
        successor: if settings.sandbox { Some(upgrade::none_in_a_sandbox()) } else { upgrade::successor() },
        cluster: settings.cluster.is_some().then(|| node.describe()),
        neighbours,
        nodes,
        on_handed_over: Box::new(move |process| {
            handed.store(true, Ordering::Release);
            notify::handed_over(process);
        }),
    };
    let served = tinaja_proxy::serve(config, service, ready);
    if !handed_over.load(Ordering::Acquire) {
        notify::stopping("writing the cache to disk");
    }
    // Whatever ended the service, what is stored is kept.
    let closed = block_on(cache.close()).context("cannot write the last objects to disk");
    served?;
    closed
}

/// The settings that have changed and are heeded at a start only, besides the proxy's own.
fn waiting(began: &Settings, new: &Settings) -> Vec<String> {
    let changed = [
        ("cache", began.cache != new.cache),
        ("disk (with `tinaja resize`)", began.disk_bytes != new.disk_bytes),
        ("memory", (began.memory_bytes, began.memory_yields) != (new.memory_bytes, new.memory_yields)),
        ("engine", began.engine != new.engine || began.knobs != new.knobs),
        ("positions_dir", began.positions_dir != new.positions_dir),
        ("cluster", began.cluster != new.cluster),
        ("io", began.io != new.io),
        ("sandbox", began.sandbox != new.sandbox),
        ("log", began.log != new.log || began.log_to != new.log_to),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name.to_owned()).collect()
}

/// What the cache is opened with, with so much disk space asked for.
pub fn cache_options(settings: &Settings, disk_bytes: Option<u64>) -> CacheOptions {
    let mut more_dirs = settings.cache.clone();
    let first = more_dirs.remove(0);
    CacheOptions::new(first)
        .more_dirs(more_dirs)
        .when(disk_bytes, CacheOptions::disk_bytes)
        .when(settings.positions_dir.clone(), CacheOptions::positions_dir)
        .memory_bytes(settings.memory_bytes)
        .memory_yields(settings.memory_yields)
        .when(settings.engine, CacheOptions::engine)
        .engine_by_memory(true)
        .settings(settings.knobs.clone())
        .when(settings.object_bytes, CacheOptions::mean_object_bytes)
        .io(settings.io)
}

/// Why a cache has the size that it has, where another is set.
pub const OTHER_SIZE: &str = "as created; another size is set, and `tinaja resize` changes it";

/// How much disk to ask for, if any, and why so much.
///
/// Errors: it cannot be found out how large a new cache should be.
pub fn disk_bytes(settings: &Settings) -> Result<(Option<u64>, &'static str)> {
    let dirs = &settings.cache;
    let new = dirs.iter().find(|dir| !Cache::exists(dir));
    let other = |bytes| Cache::other_size(&cache_options(settings, Some(bytes))).is_some();
    Ok(match (settings.disk_bytes, new) {
        // A cache that serves with the size that it has is better than none.
        (Some(bytes), None) if other(bytes) => (None, OTHER_SIZE),
        (Some(bytes), _) => (Some(bytes), "as set"),
        (None, None) => (None, "as created"),
        (None, Some(_)) if dirs.iter().all(|dir| is_block_device(dir)) => (None, "the whole device"),
        (None, Some(_)) if dirs.len() > 1 => bail!("set with --disk SIZE how much disk space to use in each directory"),
        (None, Some(new)) => {
            (Some(place::untold_disk_bytes(new)?), "a quarter of the free space, at most 10 GiB; set it with --disk")
        }
    })
}
