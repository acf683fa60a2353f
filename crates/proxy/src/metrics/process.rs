//! What the process takes of the machine.

use std::fs;

use prometheus::proto::MetricFamily;
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

use super::family::gauge;

/// Memory and open files now, and how many files there may be. Figures that the system does not tell are left out.
pub(super) fn families() -> Vec<MetricFamily> {
    let memory = memory_bytes().map(|bytes| {
        gauge(
            "tinaja_process_memory_bytes",
            "Memory of the process that is in RAM, shared parts included.",
            bytes as f64,
        )
    });
    let files = fs::read_dir("/proc/self/fd").map(Iterator::count).ok();
    let files = files.map(|files| gauge("tinaja_process_open_files", "Files and sockets that are open.", files as f64));
    let most = getrlimit(Resource::Nofile).current;
    let most = most.map(|most| {
        gauge("tinaja_process_open_files_limit", "Files and sockets that may be open at once.", most as f64)
    });
    [memory, files, most].into_iter().flatten().collect()
}

fn memory_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}
