//! What befalls a cluster while clients ask it: a network that parts, a node that hangs, dies and comes back, garbage, a node of another release. Each request is
//! answered with the right bytes and in bounded time, and the cluster is whole afterwards. More of nodes that stop and die is in `cluster` and `cluster_disks`.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tinaja_cluster::joined::Joined;
use tinaja_cluster::joining::PROTOCOL;
use tinaja_cluster::tls::Files;
use tinaja_cluster::{Comers, Joining, disks::Disks};
use tinaja_lab::peers::{Places, needs_root};
use tinaja_store::Reference;
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::tools::output;
use tinaja_testkit::wait::eventually;

use crate::cluster::{Together, asked, check, under_load};

const SETTINGS: &str = "disk = \"home\"\ncopies = 2";

fn paths() -> Vec<String> {
    (0..40).map(|n| format!("/{}/object-{n}", [3000, 60_000][n % 2])).collect()
}

/// Whether what is purged at one node is gone from all, and one fetch does for all again.
fn is_whole(together: &Together, origin: &Origin) {
    let last = together.nodes.len() - 1;
    together.know(&(0..=last).collect::<Vec<_>>(), last);
    for path in paths().iter().take(6) {
        let url = format!("{}{path}", crate::cluster::SITE);
        let (code, said) = together.tinaja(0, &["purge", &url]);
        assert_eq!(code, Some(0), "{said}");
        let before = asked(origin);
        for n in 0..=last {
            check(path, &together.get(n, path));
        }
        assert_eq!(asked(origin), before + 1, "{path}");
    }
    for node in &together.nodes {
        let said =
            fs::read_to_string(node.dir.join("output")).unwrap() + &fs::read_to_string(node.dir.join("log")).unwrap();
        assert!(!said.contains("panic"), "{said}");
    }
}

/// The network parts: no node reaches another one, without a word, while clients and the origin reach all. Each serves alone, and then they find each other again.
#[test]
fn the_network_parts_and_is_whole_again() {
    if let Err(why) = needs_root() {
        eprintln!("SKIPPED: {why}");
        return;
    }
    // Dropped last: the origin's address goes with them.
    let places = Arc::new(Places::make(4).unwrap());
    let origin = Origin::of_patterns_on(TcpListener::bind((places.here(), 0)).unwrap());
    let together = Together::start_in(&places, 4, &origin, SETTINGS);
    let servers: Vec<_> = together.nodes.iter().map(|node| node.listen).collect();
    under_load("parted", &servers, &paths(), |load| {
        places.part(true).unwrap();
        together.know(&[0, 1, 2, 3], 0);
        load.goes_on(400);
        places.part(false).unwrap();
        together.know(&[0, 1, 2, 3], 3);
        load.goes_on(400);
    });
    is_whole(&together, &origin);
}

/// One node of four hangs and goes on, is killed and comes back in another life, all while clients ask the others. What it is the home of goes with it: where copies of objects
/// are in the shared memory, or the disk that they lie on.
#[test]
fn a_node_goes_and_comes_back_twice() {
    for (what, settings) in [("with own disks", ""), ("with disks of homes", SETTINGS)] {
        let origin = Origin::of_patterns();
        let mut together = Together::start_with(4, &origin, settings);
        let homes = |together: &Together| together.status(0)["own_homes"].as_u64().unwrap();
        let share = homes(&together);
        let servers = [0, 1, 2].map(|n: usize| together.nodes[n].listen);
        under_load(what, &servers, &paths(), |load| {
            for is_killed in [false, true] {
                let signal = if is_killed { Signal::KILL } else { Signal::STOP };
                together.nodes[3].process.signal(signal);
                together.know(&[0, 1, 2], 2);
                assert!(homes(&together) > share, "its share of the homes is the others'");
                load.goes_on(200);
                if is_killed {
                    together.restart(3);
                } else {
                    together.nodes[3].process.signal(Signal::CONT);
                }
                together.know(&[0, 1, 2, 3], 3);
                load.goes_on(200);
            }
        });
        for path in paths() {
            check(&path, &together.get(3, &path));
        }
        if settings == SETTINGS {
            is_whole(&together, &origin);
        } else {
            together.know(&[0, 1, 2, 3], 3);
            let url = format!("{}{}", crate::cluster::SITE, paths()[0]);
            assert_eq!(together.tinaja(3, &["purge", &url]).0, Some(0));
            assert!(!together.get(0, &paths()[0]).is_hit(), "a purge reaches all");
        }
    }
}

/// Whatever comes to the port of a node, from strangers and from whoever has a certificate, harms nobody.
#[test]
fn garbage_comes_to_the_port_of_each_node() {
    let origin = Origin::of_patterns();
    let together = Together::start_with(3, &origin, SETTINGS);
    let servers: Vec<_> = together.nodes.iter().map(|node| node.listen).collect();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| together.home.path().join(name);
    let noise = body("noise", 200_000);
    // Frames of a length that goes on beyond what follows, and whole ones that are no messages.
    let frames: Vec<u8> =
        noise.chunks(50).flat_map(|chunk| [&(chunk.len() as u32).to_le_bytes()[..], chunk].concat()).collect();
    let endless = vec![0; 3 << 20];
    let sent = [("noise", &noise[..]), ("frames", &frames[..]), ("short", &noise[..7]), ("endless", &endless)];
    for (name, bytes) in sent {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    under_load("garbage", &servers, &paths(), |load| {
        for round in 0..3 {
            for node in &together.nodes {
                // A hello of TLS that never ends, and none at all.
                for first in [&b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc"[..], &noise[..20_000]] {
                    let mut stranger = TcpStream::connect(node.address).unwrap();
                    // The node may have closed before it has all.
                    let _ =
                        stranger.write_all(first).and_then(|()| stranger.write_all(&noise[round * 100..][..30_000]));
                }
                for (path, name) in [
                    ("messages", "noise"),
                    ("messages", "frames"),
                    ("gossip", "noise"),
                    ("gossip", "short"),
                    ("remove", "noise"),
                    ("remove", "short"),
                    ("call", "noise"),
                    ("call", "short"),
                    ("call", "endless"),
                ] {
                    let mut curl = Command::new("curl");
                    curl.args(["--silent", "--http2", "--max-time", "5", "--request", "POST", "--insecure", "--cert"])
                        .arg(file("server.pem"));
                    curl.arg("--key")
                        .arg(file("server.key"))
                        .arg("--data-binary")
                        .arg(format!("@{}", dir.path().join(name).display()));
                    output(curl.arg(format!("https://{}/{path}", node.address)));
                }
            }
            load.goes_on(100);
        }
    });
    for n in 0..3 {
        let garbage = together.status(n)["counts"]["garbage"].as_u64().unwrap();
        assert!(garbage > 1000, "node {n} has seen {garbage} frames of garbage");
    }
    is_whole(&together, &origin);
}

/// A node of another release comes to the cluster: each refuses it, and says why; it serves alone, and says why; and clients notice nothing.
#[test]
fn a_node_of_another_release_is_refused() {
    let origin = Origin::of_patterns();
    let together = Together::start_with(3, &origin, SETTINGS);
    let servers: Vec<_> = together.nodes.iter().map(|node| node.listen).collect();
    let file = |name: &str| together.home.path().join(name);
    let joining = Joining {
        cluster: "test".to_owned(),
        node: "newer".to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        seeds: together.nodes.iter().map(|node| node.address.to_string()).collect(),
        files: Files { ca: file("ca.pem"), certificate: file("server.pem"), key: file("server.key") },
        memory_bytes: 8 << 20,
        disks: Disks::Home { copies: 2 },
        patience: Duration::from_millis(300),
        protocol: PROTOCOL + 1,
        ..Joining::default()
    };
    let refused = |n: usize| together.status(n)["refused"].to_string();
    under_load("another release", &servers, &paths(), |load| {
        let newer = Joined::join(joining, Arc::new(Reference::default()), Comers::default()).unwrap();
        let why = format!("it speaks version {} of the cluster's protocol", PROTOCOL + 1);
        eventually("each to refuse it", || (0..3).all(|n| refused(n).contains(&why)));
        together.know(&[0, 1, 2], 2);
        // That they have refused it says nothing of whom it has met: the last one it meets when the gossip comes round.
        let status = || tinaja_store::block_on(newer.status()).unwrap();
        eventually("it to refuse each", || status().refused.len() == 3);
        assert_eq!(status().peers.len(), 0, "{:?}", status());
        load.goes_on(200);
        newer.leave();
        eventually("it to be gone", || (0..3).all(|n| refused(n) == "[]"));
    });
    is_whole(&together, &origin);
}
