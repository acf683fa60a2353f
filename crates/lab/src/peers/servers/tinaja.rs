//! Ours: `tinaja serve`, by the program that the laboratory itself is part of.

use std::path::Path;
use std::process::Command;

use tinaja_store::{EngineRef, engines};

use super::{Peer, Setting, Start};
use crate::paper::damelo as paper;

pub fn start(setting: &Setting<'_>, engine: EngineRef, prefetch: bool) -> Start {
    let Setting { bench, program, address, share } = setting;
    let cache = bench.mounted().join("cache");
    let mut command = bench.command(program);
    command.args(["serve", "--log", "warn", "--workers", "2", "--allow-destination", "127.0.0.0/8"]);
    command.args(["--listen", &address.to_string(), "--engine", engine.name]);
    command.args(["--disk", &format!("{}B", share.disk_bytes), "--memory", &format!("{}B", share.hot_bytes)]);
    if engine.has(&engines::PREFETCH) {
        command.args(["--prefetch", &prefetch.to_string()]);
    }
    if engine.has(&engines::BIN_SIZE) {
        // The paper's; measured now, the disk would be one without limits.
        command.args(["--bin-size", "8KiB", "--ways", "8"]);
    }
    if engine.has(&engines::POOL) {
        // Section 5.4 of the thesis; one size of frame, as it has.
        let (pool, frame, groups) = (paper::POOL_BYTES, paper::PROXY_FRAME_BYTES, paper::GROUPS);
        command.args(["--pool", &format!("{pool}B"), "--frame-size", &format!("{frame}B")]);
        command.args(["--groups", &groups.to_string(), "--large-frames", "0"]);
    }
    command.arg("--cache").arg(&cache);
    Start { command, cache }
}

/// Bytes of the index, as `tinaja inspect` tells them.
pub fn index_bytes(peer: Peer, cache: &Path) -> Option<u64> {
    let output =
        Command::new(peer.program()?).args(["inspect", "--json", "--top", "0", "--cache"]).arg(cache).output().ok()?;
    serde_json::from_slice::<serde_json::Value>(&output.stdout).ok()?.get("index_bytes")?.as_u64()
}
