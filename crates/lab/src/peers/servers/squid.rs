//! Squid: in one process without a master where each object is a file, else as Debian starts it: a master, a process that
//! asks the disk, one that coordinates, and one that serves.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Setting, SquidStore, Start, make_dir, write};
use crate::error::LabError;
use crate::peers::Bench;
use crate::peers::bench::run;

/// What Debian's Squid runs as; it refuses to be root.
const USER: &str = "proxy";

/// Its shared memory and its sockets have names that are the same for every Squid of a machine: here they lie where only
/// this one and what it starts see them, and are gone with the last of these processes.
const APART: &str = r#"mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /run && mkdir /run/squid && chown "$0" /run/squid && exec "$@""#;

pub fn start(setting: &Setting<'_>, store: SquidStore) -> Result<Start, LabError> {
    let Setting { bench, program, address, share } = setting;
    let (cache, own, file) = (bench.mounted().join("cache"), own_dir(bench), bench.aside().join("squid.conf"));
    make_dir(&cache)?;
    make_dir(&own)?;
    run(Command::new("chown").arg(USER).args([&cache, &own]))?;
    let (hot, log, disk) = (share.hot_bytes >> 20, own.display(), cache_dir(store, &cache, share.disk_bytes >> 20));
    write(
        &file,
        &format!(
            "http_port {address}\nvisible_hostname localhost\nhttp_access allow all\ncache_effective_user {USER}\n\
             maximum_object_size 16 MB\n{disk}\ncache_mem {hot} MB\n\
             access_log none\ncache_store_log none\nnetdb_filename none\ncache_log {log}/cache.log\npid_filename {log}/squid.pid\n\
             coredump_dir {log}\npinger_enable off\nshutdown_lifetime 0 seconds\n"
        ),
    )?;
    let command = |options: &[&str]| {
        let mut command = bench.command(Path::new("unshare"));
        command.args(["--mount", "sh", "-c", APART, USER]).arg(program).args(options).arg("-f").arg(&file);
        command
    };
    run(&mut command(&["-N", "-z"]))?;
    if store == SquidStore::Rock {
        bench.write_through(&cache.join("rock"))?;
    }
    let command = command(if store == SquidStore::Rock { &["--foreground"] } else { &["-N"] });
    Ok(Start { command, cache })
}

/// The line of its settings that says where objects are kept, with those that this kind of store needs.
fn cache_dir(store: SquidStore, dir: &Path, megabytes: u64) -> String {
    let dir = dir.display();
    match store {
        // Directories as Squid's own example has them.
        SquidStore::Ufs => format!("cache_dir ufs {dir} {megabytes} 16 256"),
        SquidStore::Aufs => format!("cache_dir aufs {dir} {megabytes} 16 256"),
        // Slots of the default size, which hold four objects of five; what is larger takes several, so that it needs no
        // second store. Hot objects that are shared with nobody: shared, each takes 32 KB, however small it is.
        SquidStore::Rock => {
            format!("workers 1\nmemory_cache_shared off\ncache_dir rock {dir} {megabytes} slot-size=16384")
        }
    }
}

/// Where its log and its pid lie.
fn own_dir(bench: &Bench) -> PathBuf {
    bench.aside().join("squid")
}

/// Whether it says that it has looked through its store.
pub fn has_read_its_store(bench: &Bench) -> bool {
    let log = fs::read(own_dir(bench).join("cache.log")).unwrap_or_default();
    String::from_utf8_lossy(&log).contains("Finished rebuilding storage from disk")
}

/// Bytes of the shared memory that a rock store's index lies in, as the process sees them that began first: a map of its
/// slots, by their keys and by how they follow each other, and a list of the free ones.
pub fn rock_index_bytes(pid: u32) -> Option<u64> {
    let files = fs::read_dir(format!("/proc/{pid}/root/dev/shm")).ok()?.filter_map(Result::ok);
    let index = files.filter(|file| is_of_a_rock_index(&file.file_name().to_string_lossy()));
    let bytes: u64 = index.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    (bytes > 0).then_some(bytes)
}

/// The names end with the last part of the directory's, [`start`]'s `cache`, and what it is.
fn is_of_a_rock_index(name: &str) -> bool {
    name.contains(".cache_map_") || name.contains(".cache_spaces")
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

    #[test]
    fn of_shared_memory_only_the_map_of_slots_is_the_index() {
        let names = [
            "squid-tmp.mounted.cache_map_anchors.shm",
            "squid-tmp.mounted.cache_map_slices.shm",
            "squid-tmp.mounted.cache_map_filenos.shm",
            "squid-tmp.mounted.cache_spaces.shm",
            "squid-cache_mem_map_anchors.shm",
            "squid-transients_map_anchors.shm",
            "squid-squid-page-pool.shm",
            "squid-io_file__queues.shm",
        ];
        assert_eq!(names.map(is_of_a_rock_index), [true, true, true, true, false, false, false, false]);
    }

    #[test]
    fn each_store_has_its_own_line_of_settings() {
        let line = |store| cache_dir(store, Path::new("/c"), 256);
        assert_eq!(line(SquidStore::Aufs), "cache_dir aufs /c 256 16 256");
        let rock = line(SquidStore::Rock);
        assert!(rock.ends_with("\ncache_dir rock /c 256 slot-size=16384") && rock.starts_with("workers 1\n"), "{rock}");
    }
}
