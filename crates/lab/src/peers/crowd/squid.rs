//! Squids that are siblings: each fetches the digests of the others, and asks one of them for what its digest names; or asks all by ICP.
//!
//! Squid asks no sibling for what it takes for nearer than 400 ms or five hops away, which each origin here is: both limits are set to 0.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{PORT, Setting, program, write as write_file};
use crate::error::LabError;
use crate::peers::bench::run;

/// What Debian's Squid runs as; it refuses to be root.
const USER: &str = "proxy";

/// Where they ask each other by ICP.
const ICP_PORT: u16 = 3130;

/// How long a Squid may take to say what it knows of its siblings, and how much it may say.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_SAID: u64 = 1 << 20;

/// How Squids know what their siblings have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// By digests, which they fetch from each other.
    Digests,
    /// By asking all of them by ICP for each object that is not here.
    Icp,
    /// The same, and what a sibling has given is not stored here too.
    IcpProxyOnly,
}

impl Sharing {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Digests => "Squid, digests",
            Sharing::Icp => "Squid, ICP",
            Sharing::IcpProxyOnly => "Squid, ICP, proxy-only",
        }
    }
}

/// What a Squid says of its siblings, since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Siblings whose digest it has and uses.
    pub usable: u64,
    /// Digests that it has fetched from these.
    pub fetched: u64,
    /// Requests that a sibling answered which a digest had named.
    pub by_digest: u64,
    /// Requests that a sibling answered which had said by ICP that it could.
    pub by_icp: u64,
}

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
pub fn write(setting: &Setting<'_>, n: u8, own: &Path, sharing: Sharing) -> Result<(), LabError> {
    let Setting { places, count, room, services, .. } = setting;
    let (asked, lines) = match sharing {
        Sharing::Digests => (
            "0 no-query".to_owned(),
            format!(
                "icp_port 0\ndigest_generation on\ndigest_rebuild_period {REBUILT_MINUTES} minutes\n\
                 digest_rewrite_period {REBUILT_MINUTES} minutes\n"
            ),
        ),
        Sharing::Icp | Sharing::IcpProxyOnly => (
            format!("{ICP_PORT} no-digest{}", if sharing == Sharing::Icp { "" } else { " proxy-only" }),
            format!(
                "icp_port {ICP_PORT}\nicp_access allow all\nudp_incoming_address {}\ndigest_generation off\n",
                places.of(n)
            ),
        ),
    };
    let (dir, disk, memory) = (own.display(), room.disk_bytes >> 20, room.memory_bytes >> 20);
    let siblings: Vec<_> = (0..*count)
        .filter(|other| *other != n)
        .map(|other| {
            let address = places.of(other);
            format!("cache_peer {address} sibling {PORT} {asked} no-netdb-exchange name=box-{other}\n")
        })
        .collect();
    let file = own.join("squid.conf");
    write_file(
        &file,
        &format!(
            "http_port {}:{PORT}\nvisible_hostname box-{n}\nunique_hostname box-{n}\nhttp_access allow all\n\
             cache_effective_user {USER}\nmaximum_object_size 16 MB\ncache_dir aufs {dir}/cache {disk} 16 16\ncache_mem {memory} MB\n\
             {lines}{}minimum_direct_rtt 0\nminimum_direct_hops 0\n\
             client_idle_pconn_timeout 1 day\nserver_idle_pconn_timeout 1 day\nclient_lifetime 30 days\nread_timeout 1 day\n\
             access_log none\ncache_store_log none\nnetdb_filename none\ncache_log {dir}/cache.log\npid_filename {dir}/squid.pid\n\
             coredump_dir {dir}\npinger_enable off\nshutdown_lifetime 0 seconds\n",
            places.of(n),
            siblings.concat()
        ),
    )?;
    std::fs::create_dir(own.join("cache")).map_err(|why| LabError::failed("making a Squid's directory", why))?;
    run(Command::new("chown").arg("-R").arg(USER).arg(own))?;
    run(Command::new(program("squid")?).args(services.arguments(n)).args(["-N", "-z", "-f"]).arg(file)).map(drop)
}

/// The command that starts it so long after the first. Where there are digests, its clock goes faster and is as far ahead as theirs.
pub fn command(
    setting: &Setting<'_>,
    n: u8,
    own: &Path,
    sharing: Sharing,
    later: Duration,
) -> Result<Command, LabError> {
    let (places, name) = (setting.places, setting.services.arguments(n));
    if sharing != Sharing::Digests {
        let mut command = places.command(n, &program("squid")?);
        command.args(name).args(["-N", "-f"]).arg(own.join("squid.conf"));
        return Ok(command);
    }
    let library = faster_clock().ok_or_else(|| LabError::failed("starting a Squid", "faketime is not installed"))?;
    // The library ends a process if a killed one of the same number has left its files.
    let mut command = places.command(n, Path::new("sh"));
    command.args(["-c", "rm -f /dev/shm/faketime_shm_$$ /dev/shm/sem.faketime_sem_$$; exec env \"$@\"", "sh"]);
    command.arg(format!("LD_PRELOAD={}", library.display()));
    command.arg(format!("FAKETIME=+{}s x{FASTER}", later.as_secs() * u64::from(FASTER)));
    command.arg(program("squid")?).args(name).args(["-N", "-f"]).arg(own.join("squid.conf"));
    Ok(command)
}

/// What a Squid says of those of its siblings that run. Errors: it does not answer, or not with that page.
pub fn told(of: Ipv4Addr, running: &HashSet<Ipv4Addr>) -> Result<Told, LabError> {
    let failed = |why: std::io::Error| LabError::failed("asking a Squid for its siblings", why);
    let mut stream = TcpStream::connect_timeout(&SocketAddrV4::new(of, PORT).into(), PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let ask = format!("GET /squid-internal-mgr/peer_select HTTP/1.0\r\nHost: {of}:{PORT}\r\n\r\n");
    stream.write_all(ask.as_bytes()).map_err(failed)?;
    let mut said = Vec::new();
    stream.take(MOST_SAID).read_to_end(&mut said).map_err(failed)?;
    told_in(&String::from_utf8_lossy(&said), running)
        .ok_or_else(|| LabError::failed("asking a Squid for its siblings", "it does not say what it asked them by"))
}

/// The same, from the page.
fn told_in(said: &str, running: &HashSet<Ipv4Addr>) -> Option<Told> {
    let after = |text: &str, name: &str| -> Option<u64> {
        let (_, rest) = text.split_once(name)?;
        rest.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?.parse().ok()
    };
    let (siblings, used) = said.split_once("Algorithm usage:")?;
    let mut told = Told { by_digest: after(used, "Cache Digest:")?, by_icp: after(used, "Icp:")?, ..Told::default() };
    for sibling in siblings.split("\npeer digest from ").skip(1) {
        let address = sibling.lines().next().and_then(|line| line.trim().parse().ok());
        if !address.is_some_and(|address| running.contains(&address)) {
            continue;
        }
        told.fetched += after(sibling, "replies recv:")?;
        if sibling.contains("usable: yes") {
            told.usable += 1;
        }
    }
    Some(told)
}

/// Removes what the faster clock of a process that was killed has left.
pub fn clean(process: u32) {
    for name in [format!("faketime_shm_{process}"), format!("sem.faketime_sem_{process}")] {
        // It may never have got so far.
        let _ = std::fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_siblings_is_read() {
        let sibling = |address: &str, usable: &str, more: &str| {
            format!(
                "\npeer digest from {address}\nno guess stats for {address} available\n\nevent\t timestamp\n\
                 peer digest state:\n\tneeded: yes, usable: {usable}, requested:  no\n\npeer digest traffic:\n\
                 \trequests sent: 5, volume: 0 KB\n\treplies recv:  4, volume: 2 KB\n\npeer digest structure:\n{more}"
            )
        };
        let has = "10.0.0.2 digest: size: 89 bytes\n\t entries: count: 139 capacity: 142 util: 98%\n";
        let page = format!(
            "HTTP/1.1 200 OK\r\n\r\nno guess stats for all peers available\n\nPer-peer statistics:\n{}{}{}\n\nAlgorithm usage:\n\
             Cache Digest:      80 ( 98%)\nIcp:                2 (  2%)\nTotal:             82 (100%)\n",
            sibling("10.0.0.2", "yes", has),
            sibling("10.0.0.3", " no", "no in-memory copy\n"),
            sibling("10.0.0.4", "yes", has),
        );
        let running = HashSet::from([Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3)]);
        let told = told_in(&page, &running);
        assert_eq!(told, Some(Told { usable: 1, fetched: 8, by_digest: 80, by_icp: 2 }));
        assert_eq!(told_in("HTTP/1.1 404 Not Found\r\n\r\n", &running), None);
    }
}
