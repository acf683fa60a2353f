//! What memory the proxy takes while the disk is slow: filled on a disk without limits, then asked by ever more clients on
//! one that takes 70 reads and 70 writes a second, in a control group with little memory.
//!
//! `TINAJA=target/release/tinaja cargo run -p tinaja-lab --example proxy_memory -- [ENGINE] [GROUP_MIB] [DISK_MIB]`, as root.
//! By default `hashcache-set` in 128 MiB with 2048 MiB of disk, as in the HashCache paper's section 7 and in the laboratory's
//! `hashcache-peers`. `squid` as the engine runs Squid. What each engine is asked is the same to the byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a tool that is run by hand")]

use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use tinaja_lab::load::{Embedded, PolyMix, PolyMixOptions};
use tinaja_lab::peers::{
    Bench, BenchOptions, Clients, FileSystem, Origin, Peer, Server, Share, SquidStore, Tally, fill, flat_out,
};
use tinaja_store::EngineRef;

/// How long each number of clients asks.
const EACH: Duration = Duration::from_secs(15);

fn main() {
    let mut arguments = env::args().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == "serve") {
        // The laboratory starts the program that it is part of, which is to be the proxy itself.
        let program = env::var_os("TINAJA").expect("TINAJA names the program to measure");
        panic!("{}", Command::new(program).args(arguments).exec());
    }
    let engine = arguments.next().unwrap_or_else(|| "hashcache-set".into());
    let mut mib = |default: u64| arguments.next().map_or(default, |text| text.parse().expect("MiB")) << 20;
    let (memory_bytes, disk_bytes) = (mib(128), mib(2048));
    let peer = match engine.as_str() {
        "squid" => Peer::Squid(SquidStore::Aufs),
        "traffic-server" => Peer::TrafficServer,
        name => {
            let (name, prefetch) = name.strip_suffix("+prefetch").map_or((name, false), |name| (name, true));
            Peer::Tinaja { engine: name.parse::<EngineRef>().expect("an engine"), prefetch, is_new: false }
        }
    };
    println!("{} in a group of {} MiB, {} MiB of disk", peer.name(), memory_bytes >> 20, disk_bytes >> 20);
    let scratch = env::var_os("TMPDIR").map_or("/tmp".into(), PathBuf::from);
    let bench =
        Bench::make(&BenchOptions { scratch, disk_bytes: disk_bytes / 4 * 5, memory_bytes, files: FileSystem::Ext4 })
            .unwrap();
    let share = Share { disk_bytes, hot_bytes: 8 << 20 };
    let mut server = Server::start(peer, &bench, &share).unwrap();
    let origin = Origin::begin().unwrap();

    let options = PolyMixOptions::new(Embedded::Zipf13, 100.0, 1);
    let working_set = (0.3 * disk_bytes as f64 / options.stored_bytes_a_view()) as u64;
    let options = PolyMixOptions { working_set, ..options };
    let requests = options.working_set as f64 * options.requests_a_view() / options.share_of_new_views();
    let clients = Clients::new(options.clients, server.address(), origin.address());
    let mut mix = PolyMix::new(options, 2009);
    say(&bench, "started", None);
    let filled = fill(&clients, &mut mix, requests as usize, 16).unwrap();
    say(&bench, "filled", Some(&filled));
    sleep(Duration::from_secs(3));
    say(&bench, "3 s later", None);
    bench.limit(70).unwrap();
    for at_once in [32, 128, 256] {
        let asked = flat_out(&clients, &mut mix, EACH, at_once);
        server.still_runs().unwrap();
        say(&bench, &format!("{at_once} at once"), Some(&asked.unwrap()));
    }
    sleep(Duration::from_secs(15));
    say(&bench, "15 s later", None);
}

fn say(bench: &Bench, when: &str, tally: Option<&Tally>) {
    let took = bench.processes();
    let mb = |bytes: u64| bytes as f64 / 1e6;
    print!("{when:<14} {:6.1} MB now, {:6.1} MB at most", mb(took.resident_bytes), mb(took.peak_bytes));
    match tally {
        None => println!(),
        Some(tally) => println!(
            "; {} requests, {:.0} a second, {:.1} % hits, {} failed, {:.2} ms of processor each",
            tally.requests(),
            tally.rate(),
            tally.hit_ratio() * 100.0,
            tally.failed,
            (took.user_s + took.system_s) * 1e3 / tally.requests().max(1) as f64
        ),
    }
}
