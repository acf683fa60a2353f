//! The proxy of a case, with its settings.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tinaja_proxy::cache_rules::{CacheRule, CacheRules, Coding, Orders};
use tinaja_proxy::{Config, LogFormat, Mode, OriginUrl, Routes, Rules};
use tinaja_store::{Cache, CacheOptions, Reference, Store};

use super::Side;
use super::case::Case;
use crate::support::{Altered, Proxy};

/// Starts a proxy for the origin at `origin`.
///
/// Errors: a setting that is none.
pub fn start(case: &Case, side: Side, origin: &str, log: &Path) -> Result<Proxy, String> {
    let origin: OriginUrl = format!("http://{origin}").parse().map_err(|error| format!("{error}"))?;
    let mut result = Ok(());
    let wanted = case.settings.iter().find(|(name, _)| name == "store").map(|(_, value)| value.as_str());
    let store: Arc<dyn Store> = match wanted {
        Some("panics") => Altered::broken(),
        Some("disk") => on_disk(log),
        _ => Arc::new(Reference::new()),
    };
    let proxy = Proxy::over(store, |config| {
        config.access_log = Some(log.to_owned());
        if side == Side::Reverse {
            config.listeners[0].mode = Mode::Reverse(Routes::to(origin));
        }
        result = case.settings.iter().try_for_each(|(name, value)| set(config, name, value));
    });
    result.map(|()| proxy)
}

/// A real cache beside the log, which keeps nothing in memory, so that each hit is read from the disk.
fn on_disk(log: &Path) -> Arc<dyn Store> {
    let options = CacheOptions::new(log.with_extension("cache")).disk_bytes(1 << 30).memory_bytes(0);
    Arc::new(Cache::open(options).unwrap())
}

/// A rule that has all that may be encoded sent in this coding; a forward proxy's must name the hosts.
fn encoding(config: &Config, coding: &str) -> Option<CacheRules> {
    let encode = Coding::ALL.into_iter().filter(|one| one.name() == coding).collect();
    let hosts = match &config.listeners[0].mode {
        Mode::Forward => vec!["127.0.0.1".parse().ok()?],
        _ => Vec::new(),
    };
    CacheRules::new(vec![CacheRule { hosts, ..CacheRule::new(Orders { encode, ..Orders::default() }) }]).ok()
}

fn set(config: &mut Config, name: &str, value: &str) -> Result<(), String> {
    let bad = || format!("no such setting: {name} {value}");
    let limits = &mut config.limits;
    let duration = match name {
        "head_ms" => &mut limits.head,
        "idle_ms" => &mut limits.idle,
        "client_stall_ms" => &mut limits.client_stall,
        "origin_stall_ms" => &mut limits.origin_stall,
        "tunnel_idle_ms" => &mut limits.tunnel_idle,
        "collapse_ms" => &mut limits.collapse,
        _ => {
            match (name, value) {
                ("connections", count) => limits.connections = count.parse().map_err(|_| bad())?,
                ("name", name) => config.name = Some(name.to_owned()),
                // Without the rule that lets the other cases reach this host.
                ("rules", "default") => config.listeners[0].rules = Rules::default(),
                // See `start`.
                ("store", "panics" | "disk") => {}
                ("encode", coding) => config.listeners[0].cache_rules = encoding(config, coding).ok_or_else(bad)?,
                ("log", "json") => config.access_log_format = LogFormat::Json,
                _ => return Err(bad()),
            }
            return Ok(());
        }
    };
    *duration = Duration::from_millis(value.parse().map_err(|_| bad())?);
    Ok(())
}
