//! What the system says: processor time, bytes written, and what machine this is.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process, user and system.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

/// Bytes this process has caused to be written to disks.
pub fn bytes_written() -> u64 {
    field("/proc/self/io", "write_bytes").and_then(|bytes| bytes.parse().ok()).unwrap()
}

/// What this process asked disks for so far.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Bytes read and written.
    pub bytes: (u64, u64),
    /// Calls of the kinds of `read` and `write`: none for what goes through io_uring.
    pub calls: (u64, u64),
}

/// See [`Io`].
pub fn io() -> Io {
    let of = |name| field("/proc/self/io", name).and_then(|number| number.parse().ok()).unwrap();
    Io { bytes: (of("read_bytes"), of("write_bytes")), calls: (of("syscr"), of("syscw")) }
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// The machine in one line, without its name.
pub fn description() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or("unknown processor".into());
    let virtual_machine = field("/proc/cpuinfo", "flags").is_some_and(|flags| flags.contains("hypervisor"));
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let gibibytes = memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) as f64 / 1048576.0;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = release.split(['-', '\n']).next().unwrap_or_default();
    let kind = if virtual_machine { "virtual machine, its disk virtual too" } else { "real machine" };
    let file_system = file_system().unwrap_or("unknown file system".into());
    format!("{model}, {cpus} processors, {gibibytes:.0} GiB of memory, Linux {kernel}, {file_system}; {kind}")
}

/// Threads that ran or waited to run, on average over the last five minutes.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').nth(1).unwrap_or("unknown").to_string()
}

/// The type of the file system that holds the measured files.
fn file_system() -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let here = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.filter(|fields| here.starts_with(fields[1])).max_by_key(|fields| fields[1].len())?;
    Some(mount[2].to_string())
}

/// Today, as the system's `date` says it.
pub fn today() -> String {
    let output = std::process::Command::new("date").arg("+%F").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default()
}
