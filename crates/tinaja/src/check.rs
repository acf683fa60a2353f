//! `tinaja serve --check`: are the settings good, and what would be done?
//!
//! The store reads superblocks and sizes for this, and nothing is opened for writing. So it can run beside the server whose
//! next configuration it checks.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _, stdout};
use std::path::Path;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use rustix::fs::{Access, access};
use tinaja_proxy::intercept::Interception;
use tinaja_proxy::mirrors::Kind;
use tinaja_proxy::{ChainField, Listener, Mode};
use tinaja_store::engines::INDEX_ENTRIES;
use tinaja_store::{Cache, Clock, OpenDiskError, OpenError, existing, is_block_device};

use crate::limits;
use crate::place;
use crate::report::shown;
use crate::sandbox;
use crate::serve::{OTHER_SIZE, cache_options, disk_bytes};
use crate::settings::Settings;
use crate::tune;

/// Checks all that can be checked without starting, and prints what `serve` would do. Nothing is listened on, opened for
/// writing or made; a server that runs on the same cache is not in the way.
///
/// Errors: what `serve` would fail with.
pub fn check(settings: &Settings) -> Result<()> {
    tinaja_proxy::check(&settings.proxy, &Clock::system())?;
    settings.cluster.as_ref().map_or(Ok(()), |joining| joining.check(&Clock::system()))?;
    limits::fits(settings)?;
    sandbox::possible(settings)?;
    let cache = cache(settings)?;
    if let Some(log) = &settings.proxy.access_log {
        writable_file(log).with_context(|| format!("cannot write the access log {}", log.display()))?;
    }
    if let Some(log) = &settings.log_to.file {
        writable_file(log).with_context(|| format!("cannot write the log {}", log.display()))?;
    }
    let mut text = String::from("The settings are valid. With them Tinaja\n");
    for listener in &settings.proxy.listeners {
        text.push_str(&listening(listener));
    }
    if settings.proxy.listeners.iter().any(|listener| listener.offline) {
        text.push_str("  is offline: it asks no origin, and serves what is in the cache, fresh or stale\n");
    }
    // All listeners have the same.
    for mirror in settings.proxy.listeners.iter().take(1).flat_map(|listener| listener.mirrors.iter()) {
        let kind = mirror.kind.map_or("packages", Kind::name);
        let _ = writeln!(text, "  mirrors {} at {} ({kind})", mirror.origin, mirror.path);
    }
    // All listeners have the same. Writing to a String cannot fail.
    let cache_rules = settings.proxy.listeners.first().map_or(0, |listener| listener.cache_rules.len());
    let _ = match cache_rules {
        0 => Ok(()),
        1 => writeln!(text, "  stores answers by 1 cache rule, and otherwise by RFC 9111"),
        more => writeln!(text, "  stores answers by {more} cache rules, and otherwise by RFC 9111"),
    };
    let key_rules = settings.proxy.listeners.first().map_or(0, |listener| listener.key_rules.len());
    let _ = match key_rules {
        0 => Ok(()),
        1 => writeln!(text, "  names answers by 1 key rule, and otherwise by their whole URLs"),
        more => writeln!(text, "  names answers by {more} key rules, and otherwise by their whole URLs"),
    };
    if let Some(intercepting) = settings.proxy.listeners.first().and_then(intercepting) {
        let _ = writeln!(text, "  {intercepting}");
    }
    let _ = writeln!(text, "  keeps its cache in {}: {cache}", shown(&settings.cache));
    let _ = writeln!(
        text,
        "  uses {} of memory: {}",
        ByteSize::b(settings.memory_bytes).display().iec(),
        memory(settings)?
    );
    if let Some(joining) = &settings.cluster {
        let memory = ByteSize::b(joining.memory_bytes).display().iec();
        let (node, cluster, listen) = (&joining.node, &joining.cluster, joining.listen);
        let _ =
            writeln!(text, "  is the node {node} of the cluster {cluster} on {listen}, with {memory} of shared memory");
    }
    let _ = writeln!(text, "  serves with {} threads", settings.proxy.workers);
    if settings.sandbox {
        text.push_str(
            "  shuts itself in: other files than those that the settings name, and other programs, are out of reach\n",
        );
    }
    let _ = match &settings.proxy.access_log {
        Some(log) => writeln!(text, "  logs requests to {} as {}", log.display(), settings.proxy.access_log_format),
        None => writeln!(text, "  logs no requests"),
    };
    if disk_bytes(settings)?.1 == OTHER_SIZE {
        text.push_str("  would warn: disk is another size than the cache has, and `tinaja resize` changes it\n");
    }
    for what in limits::missing(settings) {
        let _ = writeln!(text, "  would warn: {what}");
    }
    for what in settings.proxy.trust.expired(Clock::system().wall()) {
        let _ = writeln!(text, "  would warn: {what}");
    }
    for listener in settings.proxy.listeners.iter().filter(|listener| listener.is_open_to_all()) {
        let _ = writeln!(text, "  would warn: {}", listener.warning());
    }
    for what in settings.proxy.listeners.iter().filter_map(Listener::idle_encode) {
        let _ = writeln!(text, "  would warn: {what}");
    }
    for lost in settings.proxy.listeners.iter().flat_map(Listener::lost_folds) {
        let _ = writeln!(text, "  would warn: {lost}");
    }
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// What it does with tunnels, if rules say so. All listeners have the same.
fn intercepting(listener: &Listener) -> Option<String> {
    let Interception { authority, rules } = &listener.interception;
    let count = match rules.len() {
        0 => return None,
        1 => "1 rule".to_owned(),
        more => format!("{more} rules"),
    };
    Some(match authority {
        Some(dir) if rules.open_any() => format!("intercepts tunnels by {count}, with the CA in {}", dir.display()),
        _ => format!("intercepts no tunnels, and has {count} about them"),
    })
}

fn listening(listener: &Listener) -> String {
    let rules = match listener.rules.len() {
        0 => "no rules of its own".to_owned(),
        1 => "1 rule".to_owned(),
        more => format!("{more} rules"),
    };
    let mut text = match &listener.mode {
        Mode::Forward => format!("  is a forward proxy on {}, with {rules}\n", listener.address),
        Mode::Transparent(by) => format!("  is a transparent proxy on {}, by {by}, with {rules}\n", listener.address),
        Mode::Reverse(_) => format!("  is a reverse proxy on {}, with {rules}\n", listener.address),
    };
    if !listener.proxy_protocol.is_empty() {
        let networks: Vec<_> = listener.proxy_protocol.iter().map(ToString::to_string).collect();
        let networks = networks.join(", ");
        text.push_str(&format!("    is told by a PROXY protocol header who the client is, from {networks}\n"));
    }
    if !listener.trusted_proxies.is_empty() {
        let networks: Vec<_> = listener.trusted_proxies.iter().map(ToString::to_string).collect();
        let field = match listener.client_field {
            ChainField::XForwardedFor => "X-Forwarded-For",
            ChainField::Forwarded => "Forwarded",
        };
        text.push_str(&format!("    believes {field} from {}\n", networks.join(", ")));
    }
    for files in &listener.certificates {
        text.push_str(&format!("    speaks TLS with the certificate in {}\n", files.certificate.display()));
    }
    if let Mode::Reverse(routes) = &listener.mode {
        for route in routes.list() {
            let host = route.host.unwrap_or("any host".into());
            text.push_str(&format!("    {host} {} goes to {}\n", route.path, route.origin));
        }
        match routes.all_else() {
            Some(origin) => text.push_str(&format!("    everything else goes to {origin}\n")),
            None => text.push_str("    everything else gets a 404\n"),
        }
    }
    text
}

/// What would become of the cache, in words.
fn cache(settings: &Settings) -> Result<String> {
    let (asked, why) = disk_bytes(settings)?;
    match Cache::check(&cache_options(settings, asked)) {
        Ok(()) => {}
        Err(OpenError::Disk(OpenDiskError::InUse(_))) => return Ok("in use by a running server".into()),
        Err(error) => return Err(place::with_flags(error).into()),
    }
    for dir in settings.cache.iter().filter(|dir| !Cache::exists(dir)) {
        let writable = if is_block_device(dir) { may_write(dir) } else { writable_dir(dir) };
        writable.with_context(|| format!("cannot create a cache in {}", dir.display()))?;
    }
    let new = settings.cache.iter().any(|dir| !Cache::exists(dir));
    let size = asked.map_or(String::new(), |bytes| format!(" of {}", ByteSize::b(bytes).display().iec()));
    let cut = if tune::is_due(settings) {
        ", with bin sizes chosen for the disk, which is measured when the cache is created"
    } else {
        ""
    };
    Ok(if new { format!("a new one{size} ({why}){cut}") } else { "the existing one".to_owned() })
}

/// What the memory is for.
fn memory(settings: &Settings) -> Result<String> {
    let (asked, _) = disk_bytes(settings)?;
    Ok(match (tune::by_memory(settings, asked), settings.engine) {
        (Some(chosen), _) => format!("the engine is {chosen}"),
        (None, Some(engine)) if !engine.has(&INDEX_ENTRIES) => "for hot objects, beside the index".to_owned(),
        (None, _) => "for hot objects, and for the index where the engine is generational".to_owned(),
    })
}

/// Whether a log could be written there, as far as permissions tell.
fn writable_file(path: &Path) -> Result<()> {
    let missing = !path.exists();
    let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let judged = if missing { parent } else { path };
    if missing != judged.is_dir() {
        bail!("{} {}", judged.display(), if missing { "is not a directory" } else { "is a directory" });
    }
    may_write(judged)
}

/// Whether a directory could be made there, with all that it is in.
fn writable_dir(dir: &Path) -> Result<()> {
    let judged = existing(dir);
    if !judged.is_dir() {
        bail!("{} is not a directory", judged.display());
    }
    may_write(judged)
}

fn may_write(path: &Path) -> Result<()> {
    access(path, Access::WRITE_OK).with_context(|| format!("no permission to write to {}", path.display()))
}
