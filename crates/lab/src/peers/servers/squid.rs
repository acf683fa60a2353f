//! Squid, in one process without a master.

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::process::Command;
use std::time::Duration;

use super::{Setting, Start, make_dir, write};
use crate::error::LabError;
use crate::peers::bench::run;

/// What Debian's Squid runs as; it refuses to be root.
const USER: &str = "proxy";

pub fn start(setting: &Setting<'_>) -> Result<Start, LabError> {
    let Setting { bench, program, address, share } = setting;
    let (cache, own, file) =
        (bench.mounted().join("cache"), bench.aside().join("squid"), bench.aside().join("squid.conf"));
    make_dir(&cache)?;
    make_dir(&own)?;
    run(Command::new("chown").arg(USER).args([&cache, &own]))?;
    // Directories as Squid's own example has them.
    let (megabytes, hot, cache_dir, log) =
        (share.disk_bytes >> 20, share.hot_bytes >> 20, cache.display(), own.display());
    write(
        &file,
        &format!(
            "http_port {address}\nvisible_hostname localhost\nhttp_access allow all\ncache_effective_user {USER}\n\
             maximum_object_size 16 MB\ncache_dir aufs {cache_dir} {megabytes} 16 256\ncache_mem {hot} MB\n\
             access_log none\ncache_store_log none\nnetdb_filename none\ncache_log {log}/cache.log\npid_filename {log}/squid.pid\n\
             coredump_dir {log}\npinger_enable off\nshutdown_lifetime 0 seconds\n"
        ),
    )?;
    run(bench.command(program).args(["-N", "-z", "-f"]).arg(&file))?;
    let mut command = bench.command(program);
    command.args(["-N", "-f"]).arg(&file);
    Ok(Start { command, cache })
}

/// Bytes of the structures that its index is made of, as its manager's page on memory tells them.
pub fn index_bytes(address: SocketAddrV4) -> Option<u64> {
    parse_memory(&ask_manager(address, "mem").ok()?)
}

fn ask_manager(address: SocketAddrV4, page: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET /squid-internal-mgr/{page} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut text = Vec::new();
    stream.take(4 << 20).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Pools of the index: an entry for each object, its key, its place in the order of use.
const POOLS: [&str; 3] = ["StoreEntry", "MD5 digest", "LRU policy node"];

/// Bytes of the pools, of which each has a line: its name, the size of a part, and how many parts are allocated. `None` if
/// there is no entry.
fn parse_memory(text: &str) -> Option<u64> {
    let bytes = |name: &str| {
        let line = text.lines().find(|line| line.split('\t').next().is_some_and(|own| own.trim() == name))?;
        let mut numbers = line.split('\t').skip(1).filter_map(|field| field.trim().parse::<u64>().ok());
        Some(numbers.next()? * numbers.next()?)
    };
    bytes("StoreEntry")?;
    Some(POOLS.into_iter().filter_map(bytes).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_added_up_by_their_names() {
        let text = "HTTP/1.1 200 OK\r\nServer: squid\r\n\r\nPool\t Obj Size\tChunks\t\tAllocated\n\
                    MemObject           \t  328\t \t \t \t 53\t 17\t 17\t 0.00\n\
                    StoreEntry          \t  104\t \t \t \t 50\t 6\t 6\t 0.00\n\
                    MD5 digest          \t   16\t \t \t \t 50\t 1\t 1\t 0.00\n\
                    LRU policy node     \t   24\t \t \t \t 40\t 1\t 1\t 0.00\n";
        assert_eq!(parse_memory(text), Some(104 * 50 + 16 * 50 + 24 * 40));
        assert_eq!(parse_memory("HTTP/1.1 403 Forbidden\r\n\r\n"), None);
    }
}
