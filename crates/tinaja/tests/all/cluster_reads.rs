//! Nodes that read each other's memory without help: found out for each, shown, and kept to by a node that is stopped.

use std::fs;

use rustix::process::Signal;
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::wait::eventually;

use crate::cluster::Together;
use crate::metrics::scrape;

const WITH_UCX: &str = "patience = \"2s\"\none_sided = [\"memory\"]";

/// How a node reads the memory of each of the others: its name, by what, and whether that is without its help.
fn ways(together: &Together, n: usize) -> Vec<(String, String, bool)> {
    let status = together.status(n);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let peers = status["peers"].as_array().unwrap().iter();
    peers.map(|peer| (text(&peer["name"]), text(&peer["transport"]), peer["one_sided"].as_bool().unwrap())).collect()
}

fn reads(together: &Together, n: usize) -> u64 {
    together.status(n)["counts"]["one-sided reads"].as_u64().unwrap()
}

/// A node that is stopped, as if its machine hung, still lends its memory: the others find what it has until they count it as gone. By HTTP/2 each of these requests would
/// be a miss.
#[test]
fn a_stopped_nodes_memory_is_read() {
    let origin = Origin::of_patterns();
    let together = Together::start_with(3, &origin, WITH_UCX);
    eventually("all memory to be read without help", || {
        (0..3).all(|n| ways(&together, n).iter().all(|(_, way, one_sided)| way == "UCX" && *one_sided))
    });
    let (code, table) = together.tinaja(0, &["cluster", "status"]);
    assert!(code == Some(0) && table.contains("UCX, one-sided reads"), "{table}");
    let one_sided = || scrape(together.nodes[0].metrics).get("tinaja_cluster_one_sided_nodes").copied();
    eventually("the figures to say so", || one_sided() == Some(2.0));
    let paths: Vec<String> = (0..30).map(|n| format!("/5000/object-{n}")).collect();
    paths.iter().for_each(|path| assert!(!together.get(2, path).is_hit()));
    let listed = |n| together.status(n)["listed"].as_u64().unwrap();
    eventually("their homes to have heard of them", || (0..3).map(listed).sum::<u64>() >= 25);
    let before = reads(&together, 0);
    together.nodes[2].process.signal(Signal::STOP);
    let mut hits = 0;
    for path in &paths {
        let answer = together.get(0, path);
        assert!(answer.status == 200 && answer.body == body(path, 5000), "{path}");
        hits += usize::from(answer.is_hit());
    }
    assert!(hits > 0, "nothing was found in the memory of a stopped node");
    assert!(reads(&together, 0) > before);
    together.nodes[2].process.signal(Signal::CONT);
    together.know(&[0, 1, 2], 2);
    println!("{hits} of {} objects found while the node that lends them was stopped", paths.len());
}

/// Nodes with UCX and without it are one cluster. Each says how it reads the others' memory, and why not better.
#[test]
fn nodes_with_and_without_ucx_are_one_cluster() {
    let origin = Origin::of_patterns();
    let mut together = Together::start_with(3, &origin, WITH_UCX);
    let file = together.nodes[2].dir.join("tinaja.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(WITH_UCX, "")).unwrap();
    together.nodes[2].process.terminate();
    together.restart(2);
    together.know(&[0, 1, 2], 2);
    eventually("nodes to know how they read each other", || {
        ways(&together, 0).iter().all(|(name, way, one_sided)| match &**name {
            "box-1" => way == "UCX" && *one_sided,
            _ => way.contains("it offers no reads by UCX") && !*one_sided,
        })
    });
    assert!(ways(&together, 2).iter().all(|(_, way, one_sided)| way == "HTTP/2 over mutual TLS" && !one_sided));
    for n in 0..12 {
        let path = format!("/5000/object-{n}");
        together.get(n % 3, &path);
        for other in 0..3 {
            eventually("another node to find it", || together.get(other, &path).is_hit());
            assert!(together.get(other, &path).body == body(&path, 5000), "{path}");
        }
    }
}
