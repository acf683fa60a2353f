//! Apache Traffic Server, without its manager, all of its files in a place of its own.

use std::path::Path;
use std::process::Command;

use super::{Setting, Start, make_dir, write};
use crate::error::LabError;
use crate::peers::bench::run;

/// The mean object that its directory is sized by, its own default.
const MEAN_BYTES: u64 = 8000;
/// An entry of its directory.
const ENTRY_BYTES: u64 = 10;

pub fn start(setting: &Setting<'_>) -> Result<Start, LabError> {
    let Setting { bench, program, address, share } = setting;
    let (cache, own) = (bench.mounted().join("cache"), bench.aside().join("ats"));
    for dir in [own.clone(), own.join("etc"), own.join("run"), own.join("log")] {
        make_dir(&dir)?;
    }
    // It opens the file past the page cache, and makes none itself.
    run(Command::new("fallocate").args(["--length", &share.disk_bytes.to_string()]).arg(&cache))?;
    bench.write_through(&cache)?;
    let root = own.display();
    write(
        &own.join("runroot.yaml"),
        &format!(
            "prefix: {root}\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\nsysconfdir: {root}/etc\ndatadir: {root}\n\
             includedir: {root}\nlibdir: /usr/lib/trafficserver\nlibexecdir: /usr/lib/trafficserver/modules\n\
             localstatedir: {root}/run\nruntimedir: {root}/run\nlogdir: {root}/log\ncachedir: {root}\n"
        ),
    )?;
    let settings = [
        format!("http.server_ports STRING {}:ip-in={}", address.port(), address.ip()),
        "admin.user_id STRING #-1".to_owned(),
        "crash_log_helper STRING NULL".to_owned(),
        "reverse_proxy.enabled INT 0".to_owned(),
        "url_remap.remap_required INT 0".to_owned(),
        "exec_thread.autoconfig INT 0".to_owned(),
        "exec_thread.limit INT 2".to_owned(),
        format!("cache.ram_cache.size INT {}", share.hot_bytes),
        format!("cache.min_average_object_size INT {MEAN_BYTES}"),
        "log.logging_enabled INT 0".to_owned(),
    ];
    let settings: Vec<_> = settings.iter().map(|line| format!("CONFIG proxy.config.{line}\n")).collect();
    write(&own.join("etc/records.config"), &settings.concat())?;
    write(&own.join("etc/storage.config"), &format!("{} {}\n", cache.display(), share.disk_bytes))?;
    let allow = "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n";
    write(&own.join("etc/ip_allow.yaml"), allow)?;
    write(&own.join("etc/remap.config"), "")?;
    write(&own.join("etc/plugin.config"), "")?;
    let mut command = bench.command(program);
    command.arg(format!("--run-root={}", own.join("runroot.yaml").display()));
    Ok(Start { command, cache })
}

/// Bytes of its directory, which is allocated in full.
pub fn index_bytes(cache: &Path) -> Option<u64> {
    Some(std::fs::metadata(cache).ok()?.len() / MEAN_BYTES * ENTRY_BYTES)
}
