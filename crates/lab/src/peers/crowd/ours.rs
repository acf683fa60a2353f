//! Ours: nodes of one cluster, objects on the disks of their homes.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tinaja_store::{Cache, Cursor, Store, block_on};

use super::{PORT, Setting, object_in, write as write_file};
use crate::error::LabError;
use crate::peers::bench::run;
use crate::peers::places::Places;

/// Where nodes talk to each other.
const CLUSTER_PORT: u16 = 7946;
/// Objects of a listing at once.
const PAGE: usize = 1024;

/// An authority, and one certificate for all nodes.
pub fn prepare(setting: &Setting<'_>) -> Result<(), LabError> {
    let path = |name: &str| setting.dir.join(name).display().to_string();
    let openssl = |arguments: &[&str]| run(Command::new("openssl").args(arguments)).map(drop);
    let (ca, ca_key, request) = (path("ca.pem"), path("ca.key"), path("request"));
    let (certificate, key, names) = (path("node.pem"), path("node.key"), path("names"));
    let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let authority = ["-x509", "-days", "2", "-subj", "/CN=Laboratory", "-keyout", &ca_key, "-out", &ca];
    openssl(&[&["req"], &new_key[..], &authority[..]].concat())?;
    openssl(&[&["req"], &new_key[..], &["-subj", "/CN=Node", "-keyout", &key, "-out", &request]].concat())?;
    write_file(&setting.dir.join("names"), "subjectAltName=DNS:node\nbasicConstraints=CA:FALSE\n")?;
    let signed = ["-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial", "-days", "2", "-extfile", &names];
    openssl(&[&["x509", "-req", "-in", &request, "-out", &certificate], &signed[..]].concat())
}

/// Settings of one node.
pub fn write(setting: &Setting<'_>, n: u8, own: &Path, copies: u8) -> Result<(), LabError> {
    let Setting { places, count, room, origin, dir, .. } = setting;
    let (own_dir, shared, address) = (own.display(), dir.display(), places.of(n));
    // Whoever starts later names others; nobody has to know of it.
    let seeds: Vec<_> = (0..(*count).min(3)).map(|seed| format!("\"{}:{CLUSTER_PORT}\"", places.of(seed))).collect();
    let half = room.memory_bytes / 2;
    write_file(
        &own.join("tinaja.toml"),
        &format!(
            "cache = \"{own_dir}/cache\"\ndisk = \"{}B\"\nmemory = \"{half}B\"\nlog_file = \"{own_dir}/log\"\nlog = \"warn\"\nworkers = 1\n\
             [cluster]\nname = \"laboratory\"\nnode = \"box-{n}\"\nlisten = \"{address}:{CLUSTER_PORT}\"\nseeds = [{}]\n\
             ca = \"{shared}/ca.pem\"\ncertificate = \"{shared}/node.pem\"\nkey = \"{shared}/node.key\"\n\
             memory = \"{half}B\"\ndisk = \"home\"\ncopies = {copies}\n\
             [[listener]]\naddress = \"{address}:{PORT}\"\nmode = \"forward\"\nallow_destination = \"{}\"\n",
            room.disk_bytes,
            seeds.join(", "),
            origin.ip()
        ),
    )
}

/// The command that starts it: the program that the laboratory is part of.
pub fn command(places: &Places, n: u8, own: &Path) -> Result<Command, LabError> {
    let program = std::env::current_exe().map_err(|why| LabError::failed("starting a node", why))?;
    let mut command = places.command(n, &program);
    command.args(["serve", "--config"]).arg(own.join("tinaja.toml"));
    Ok(command)
}

/// Wait until a node and so many others know each other. Errors: they do not in this time.
pub fn knows(own: &Path, others: usize, patience: Duration) -> Result<(), LabError> {
    let program = std::env::current_exe().map_err(|why| LabError::failed("starting a node", why))?;
    let begin = Instant::now();
    loop {
        let said = Command::new(&program)
            .args(["cluster", "status", "--json", "--config"])
            .arg(own.join("tinaja.toml"))
            .output()
            .map_err(|why| LabError::failed("asking a node for its cluster", why))?;
        let status: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        let peers = status.get("peers").and_then(|peers| peers.as_array()).map_or(0, Vec::len);
        let known_by = status.get("known_by").and_then(serde_json::Value::as_u64).unwrap_or_default();
        if peers == others && known_by == others as u64 {
            return Ok(());
        }
        if begin.elapsed() > patience {
            let why = format!("it knows {peers} others and {known_by} know it; {others} are there");
            return Err(LabError::failed("starting a cluster", why));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What lies on a node's disk, as a start after a power cut would find it: read from a copy, since the node has the disk for itself. By the objects' numbers, with their
/// bytes.
pub fn on_disk(own: &Path, scratch: &Path) -> Result<HashMap<u64, u64>, LabError> {
    let failed = |why: String| LabError::failed("reading a copy of a node's disk", why);
    let copy = tempfile::tempdir_in(scratch).map_err(|why| failed(why.to_string()))?;
    let from = own.join("cache").join("tinaja.cache");
    run(Command::new("cp").args(["--sparse=always", "--reflink=auto"]).arg(from).arg(copy.path()))?;
    let cache = Cache::open_read_only(&[copy.path().to_owned()]).map_err(|why| failed(why.to_string()))?;
    let (mut found, mut from) = (HashMap::new(), Some(Cursor::default()));
    while let Some(cursor) = from {
        let page = block_on(cache.scan(cursor, PAGE)).map_err(|why| failed(why.to_string()))?;
        for entry in &page.entries {
            let bytes = entry.head.len() as u64 + entry.body_bytes;
            found.extend(object_in(&entry.head).map(|object| (object, bytes)));
        }
        from = page.next;
    }
    Ok(found)
}
