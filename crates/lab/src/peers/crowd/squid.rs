//! Squids that are siblings: each fetches the digests of the others, and asks one of them for what its digest names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{PORT, Setting, program, write as write_file};
use crate::error::LabError;
use crate::peers::bench::run;
use crate::peers::places::Places;

/// What Debian's Squid runs as; it refuses to be root.
const USER: &str = "proxy";

/// Squid fetches one digest a minute at most, and the same one each five minutes, so that eight of them know each other after eight minutes. Its clock goes so many
/// times faster here, and what is asked in a second stands for what is asked in a minute.
pub const FASTER: u32 = 60;

/// How often a digest is made anew, by its clock; an hour by default.
pub const REBUILT_MINUTES: u32 = 10;

/// The library that makes a clock go faster, of Debian's faketime; `None` if it is not installed.
pub fn faster_clock() -> Option<PathBuf> {
    let dirs = std::fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
    dirs.map(|dir| dir.path().join("faketime/libfaketime.so.1")).find(|path| path.exists())
}

/// Settings of one Squid, and its empty store.
pub fn write(setting: &Setting<'_>, n: u8, own: &Path) -> Result<(), LabError> {
    let Setting { places, count, room, .. } = setting;
    let (dir, disk, memory) = (own.display(), room.disk_bytes >> 20, room.memory_bytes >> 20);
    let siblings: Vec<_> = (0..*count)
        .filter(|other| *other != n)
        .map(|other| {
            let address = places.of(other);
            format!("cache_peer {address} sibling {PORT} 0 no-query no-netdb-exchange name=box-{other}\n")
        })
        .collect();
    let file = own.join("squid.conf");
    write_file(
        &file,
        &format!(
            "http_port {}:{PORT}\nvisible_hostname box-{n}\nunique_hostname box-{n}\nhttp_access allow all\n\
             cache_effective_user {USER}\nmaximum_object_size 16 MB\ncache_dir aufs {dir}/cache {disk} 16 16\ncache_mem {memory} MB\n\
             icp_port 0\n{}digest_generation on\ndigest_rebuild_period {REBUILT_MINUTES} minutes\ndigest_rewrite_period {REBUILT_MINUTES} minutes\n\
             client_idle_pconn_timeout 1 day\nserver_idle_pconn_timeout 1 day\nclient_lifetime 30 days\nread_timeout 1 day\n\
             access_log none\ncache_store_log none\nnetdb_filename none\ncache_log {dir}/cache.log\npid_filename {dir}/squid.pid\n\
             coredump_dir {dir}\npinger_enable off\nshutdown_lifetime 0 seconds\n",
            places.of(n),
            siblings.concat()
        ),
    )?;
    std::fs::create_dir(own.join("cache")).map_err(|why| LabError::failed("making a Squid's directory", why))?;
    run(Command::new("chown").arg("-R").arg(USER).arg(own))?;
    run(Command::new(program("squid")?).args(["-N", "-z", "-f"]).arg(file)).map(drop)
}

/// The command that starts it so long after the first: its clock is as far ahead as theirs.
pub fn command(places: &Places, n: u8, own: &Path, later: Duration) -> Result<Command, LabError> {
    let library = faster_clock().ok_or_else(|| LabError::failed("starting a Squid", "faketime is not installed"))?;
    // The library ends a process if a killed one of the same number has left its files.
    let mut command = places.command(n, Path::new("sh"));
    command.args(["-c", "rm -f /dev/shm/faketime_shm_$$ /dev/shm/sem.faketime_sem_$$; exec env \"$@\"", "sh"]);
    command.arg(format!("LD_PRELOAD={}", library.display()));
    command.arg(format!("FAKETIME=+{}s x{FASTER}", later.as_secs() * u64::from(FASTER)));
    command.arg(program("squid")?).args(["-N", "-f"]).arg(own.join("squid.conf"));
    Ok(command)
}

/// Removes what the faster clock of a process that was killed has left.
pub fn clean(process: u32) {
    for name in [format!("faketime_shm_{process}"), format!("sem.faketime_sem_{process}")] {
        // It may never have got so far.
        let _ = std::fs::remove_file(Path::new("/dev/shm").join(name));
    }
}
