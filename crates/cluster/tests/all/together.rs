//! Several nodes: what one has the others find, and what is removed at one is gone everywhere.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_cluster::limits::{MAX_CALL_BYTES, MAX_CALLS_AT_ONCE};
use tinaja_cluster::{Comers, Joining, Pooled};
use tinaja_store::contract::bytes_of;
use tinaja_store::{Key, Removed, Source, Store, StoreError, Updated, block_on};
use tinaja_testkit::wait::eventually;

use crate::support::{One, cache, files, flush, joining, nodes};

fn key(n: u64) -> Key {
    Key::from_name(format!("object {n}").as_bytes())
}

#[test]
fn what_one_node_stores_the_others_read_from_its_memory() {
    let nodes = nodes(3, |joining| joining);
    for n in 0..50 {
        nodes[n as usize % 3].put(&key(n), "a head", &bytes_of(n, 5000));
    }
    for n in 0..50 {
        for node in &nodes {
            // Until its home has heard of it nobody else finds it.
            eventually("an object to be listed", || node.get(&key(n)).is_some());
            let (source, head, body) = node.get(&key(n)).unwrap();
            assert_eq!((&head[..], &body), (&b"a head"[..], &bytes_of(n, 5000)), "{source:?}");
        }
    }
    let remote: u64 = nodes.iter().map(|node| node.count("remote")).sum();
    assert!(remote >= 100, "{remote} reads for 100 lookups elsewhere, and more until they were listed");
    assert_eq!(nodes.iter().map(|node| node.count("garbage")).sum::<u64>(), 0);
}

#[test]
fn objects_that_are_too_large_or_on_another_disk_stay_there() {
    let nodes = nodes(2, |joining| joining);
    nodes[0].put(&key(1), "large", &bytes_of(1, 100_000));
    flush(&nodes[0]);
    assert_eq!(nodes[0].get(&key(1)).unwrap().0, Source::Disk);
    assert!(nodes[1].get(&key(1)).is_none());
    // A small one that was on a disk before stays there too: who knows whether it was removed while its node was away?
    crate::support::put(&*nodes[0].below, &key(2), "small", &bytes_of(2, 3000));
    flush(&nodes[0]);
    assert_eq!(nodes[0].get(&key(2)).unwrap().0, Source::Disk);
    assert!(nodes[1].get(&key(2)).is_none());
}

/// Once whoever wrote a newer version has been told that it is stored, nobody is given an older one by another node.
/// (A home that heard late of one version listed it while the next was being written, and that one's writer had seen none: an older version was found, once in some
/// dozen runs on a busy machine. Whoever stores waits until the home lists it.)
#[test]
fn the_last_version_is_found_everywhere() {
    let nodes = nodes(3, |joining| joining);
    for n in 0..60 {
        let length = 2000 + n as usize;
        nodes[n as usize % 2].put(&key(1), "a head", &bytes_of(n, length));
        let found = nodes[2].get(&key(1)).map(|(_, _, body)| body);
        assert!(found.is_none_or(|body| body == bytes_of(n, length)), "version {n}, or none");
        assert_eq!(nodes[n as usize % 2].get(&key(1)).unwrap().2, bytes_of(n, length));
    }
}

#[test]
fn what_is_removed_at_one_node_is_gone_everywhere() {
    let nodes = nodes(3, |joining| joining);
    for n in 0..30 {
        // All have it on disk, and some in memory.
        nodes.iter().for_each(|node| node.put(&key(n), "a head", &bytes_of(n, 1000)));
    }
    nodes.iter().for_each(flush);
    for n in 0..30 {
        let removed = block_on(nodes[n as usize % 3].store.remove(&key(n)));
        assert_eq!(removed, Ok(Removed::Elsewhere), "object {n}");
        for node in &nodes {
            assert!(node.get(&key(n)).is_none(), "object {n}");
            assert!(crate::support::get(&*node.below, &key(n)).is_none(), "object {n} on a disk");
        }
    }
}

#[test]
fn a_head_that_is_validated_at_one_node_is_so_for_all() {
    let nodes = nodes(2, |joining| joining);
    nodes[0].put(&key(1), "old", &bytes_of(1, 1000));
    eventually("the other to find it", || nodes[1].get(&key(1)).is_some());
    let edit = |head: &Bytes| (head == "old").then(|| Bytes::from_static(b"new"));
    // The other node has it in no store of its own.
    assert_eq!(block_on(nodes[1].store.update_head(&key(1), Box::new(edit))), Ok(Updated::Done));
    for node in &nodes {
        eventually("the new head", || node.get(&key(1)).is_some_and(|(_, head, _)| head == "new"));
        assert_eq!(node.get(&key(1)).unwrap().2, bytes_of(1, 1000));
    }
    assert_eq!(block_on(nodes[0].store.update_head(&key(1), Box::new(edit))), Ok(Updated::Unchanged));
}

/// A node that is gone costs the others their deadline until they know; from then on nothing. What is removed meanwhile is said not to be removed everywhere.
#[test]
fn a_node_that_is_gone_is_done_without() {
    let mut nodes = nodes(3, |joining| Joining { patience: Duration::from_millis(200), ..joining });
    for n in 0..60 {
        nodes[n as usize % 3].put(&key(n), "a head", &bytes_of(n, 1000));
    }
    let gone = nodes.remove(2);
    gone.store.node().leave();
    let why = block_on(nodes[0].store.remove(&key(1))).unwrap_err();
    assert!(matches!(&why, StoreError::Elsewhere(who) if who.contains("node 2")), "{why}");
    for n in 0..60 {
        let began = Instant::now();
        if let Some((_, _, body)) = nodes[0].get(&key(n)) {
            assert_eq!(body, bytes_of(n, 1000));
        }
        assert!(began.elapsed() < Duration::from_secs(5), "object {n}: {:?}", began.elapsed());
    }
    eventually("it to be known", || nodes.iter().all(|node| node.peers() == 1));
    eventually("a removal everywhere", || block_on(nodes[0].store.remove(&key(1))).is_ok());
    // It comes back as another life, and has to validate what it had before; the others know that they were not away.
    let address = nodes[0].address();
    let again = Pooled::join(gone.below.clone(), joining("node 2", &[address]), Comers::default()).unwrap();
    eventually("it to be known again", || nodes.iter().all(|node| node.peers() == 2));
    assert!(again.distrusted_before() > gone.store.distrusted_before());
}

/// An address whose connections are passed on to another one, and what hears of the end of each.
fn relay(to: SocketAddr) -> (SocketAddr, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, (tell, ended)) = (listener.local_addr().unwrap(), mpsc::channel());
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        // One that breaks off ends both.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    };
    std::thread::spawn(move || {
        for from in listener.incoming().map_while(Result::ok) {
            let Ok(to) = TcpStream::connect(to) else { return };
            let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
            let tell = tell.clone();
            std::thread::spawn(move || {
                std::thread::scope(|scope| {
                    scope.spawn(move || pass(back.0, back.1));
                    pass(from, to);
                });
                tell.send(()).unwrap_or_default();
            });
        }
    });
    (address, ended)
}

/// Nodes that do not go together serve alone, and each says why.
#[test]
fn nodes_that_do_not_go_together_are_told_why() {
    let first = One::start(joining("first", &[]));
    let seeds = [first.address()];
    for (other, why) in [
        (Joining { object_bytes: 4096, ..joining("second", &seeds) }, "set the same object_size on both"),
        (Joining { scheme: tinaja_cluster::scheme::Scheme::Bcc, ..joining("third", &seeds) }, "set the same on both"),
        (joining("first", &seeds), "it has this node's name"),
    ] {
        let name = other.node.clone();
        let other = One::start(other);
        let refused = |node: &One| block_on(node.store.node().status()).unwrap().refused;
        let said =
            |node: &One, of: &str| refused(node).into_iter().any(|(name, _, said)| name == of && said.contains(why));
        eventually(why, || said(&first, &name) || said(&other, "first"));
        assert_eq!((first.peers(), other.peers()), (0, 0));
        other.put(&key(1), "a head", &bytes_of(1, 100));
        assert!(other.get(&key(1)).is_some() && first.get(&key(1)).is_none(), "alone");
    }
    // Of another authority: nobody hears of it, however often it comes.
    let (seed, ended) = relay(first.address());
    let other = One::start(Joining { files: files(true), ..joining("stranger", &[seed]) });
    other.put(&key(2), "a head", &bytes_of(1, 100));
    for _ in 0..3 {
        ended.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    assert_eq!((first.peers(), other.peers()), (0, 0));
    assert!(first.get(&key(2)).is_none());
}

#[test]
fn what_cannot_be_joined_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let below = cache(dir.path());
    let said =
        |joining: Joining| Pooled::join(below.clone(), joining, Comers::default()).map(drop).unwrap_err().to_string();
    let (own, other) = (files(false), files(true));
    let with = |files| Joining { files, ..joining("node", &[]) };
    let mut missing = own.clone();
    missing.ca = "/nowhere/ca.pem".into();
    assert!(said(with(missing)).contains("/nowhere/ca.pem holds no certificate"));
    let mut strange = own.clone();
    strange.ca = other.ca.clone();
    assert!(said(with(strange)).contains("does not go with"), "a certificate of another authority");
    let mut mixed = own;
    mixed.key = other.key;
    assert!(said(with(mixed)).contains("does not go with"), "another certificate's key");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    assert!(said(Joining { listen, ..joining("node", &[]) }).contains("cannot listen on 127.0.0.1:"));
    assert!(said(Joining { memory_bytes: 100, ..joining("node", &[]) }).contains("make memory larger"));
    assert!(said(Joining { memory_bytes: 1 << 62, ..joining("node", &[]) }).contains("make memory smaller"));
}

/// What a node's program says to another's, and what that answers: each in its turn, however many there are; too much, or to nobody, is not answered.
#[test]
fn programs_talk_by_their_nodes() {
    let (calls, mut taken) = tinaja_cluster::comers::calls();
    let (dirs, one) = ([(); 2].map(|()| tempfile::tempdir().unwrap()), One::start(joining("one", &[])));
    let comers = Comers { calls: Some(calls), ..Comers::default() };
    // It is so for some seconds, and the rest may take longer on a busy machine.
    assert!(one.store.node().is_young() && one.store.node().is_meant_to_be_alone());
    let other = Pooled::join(cache(dirs[0].path()), joining("other", &[one.address()]), comers).unwrap();
    assert!(!other.node().is_meant_to_be_alone());
    eventually("the nodes to know each other", || {
        one.store.node().others().len() == 1 && other.node().others().len() == 1
    });
    let to = |node: &Pooled| node.node().others().remove(0).0;
    let (id, back) = (to(&one.store), to(&other));
    assert_eq!(one.store.node().others()[0].1, "other");
    // What is said so fast waits until somebody answers.
    let answering = std::thread::spawn(move || {
        let mut most = 0;
        while let Some((said, answer)) = taken.blocking_recv() {
            most = most.max(said.len());
            answer.send([&b"heard "[..], &said[..said.len().min(9)]].concat().into()).unwrap();
        }
        most
    });
    std::thread::scope(|scope| {
        for n in 0..2 * MAX_CALLS_AT_ONCE {
            let node = one.store.node();
            scope.spawn(move || {
                let answer = block_on(node.call(id, format!("call {n}").into_bytes().into()));
                assert_eq!(answer.as_deref(), Some(format!("heard call {n}").as_bytes()));
            });
        }
    });
    let long = |bytes| block_on(one.store.node().call(id, vec![b'x'; bytes].into()));
    assert_eq!(long(MAX_CALL_BYTES).as_deref(), Some(&b"heard xxxxxxxxx"[..]));
    assert_eq!(long(MAX_CALL_BYTES + 1), None);
    // Nobody answers there, and nobody is there.
    assert_eq!(block_on(other.node().call(back, "call".into())), None);
    assert_eq!(block_on(other.node().call(id, "call".into())), None);
    block_on(other.close()).unwrap();
    drop(other);
    assert_eq!(answering.join().unwrap(), MAX_CALL_BYTES);
}
