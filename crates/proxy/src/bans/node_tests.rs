//! Bans of several nodes, each with a book of its own.

use std::time::Duration;

use super::*;
use tempfile::TempDir;

const NOW: SystemTime = UNIX_EPOCH;

struct Node {
    dir: TempDir,
    bans: Bans,
}

impl Node {
    fn new() -> Node {
        let dir = tempfile::tempdir().unwrap();
        let bans = Node::open(&dir);
        Node { dir, bans }
    }

    fn open(dir: &TempDir) -> Bans {
        let bans = Bans::away(Some(dir.path()), true);
        bans.take(NOW, 0);
        bans
    }

    fn restart(&mut self) {
        self.bans = Node::open(&self.dir);
    }

    fn ban(&self, tag: u64) -> Stamp {
        self.bans.ban(vec![Rule::Tag { host: None, tag }], false, NOW).unwrap()
    }

    /// Bans here and has the others do the same, as `nodes` does.
    fn spread(&self, tag: u64, others: &[&Node]) {
        let rules = [Rule::Tag { host: None, tag }];
        let told = self.bans.told(&rules, false, NOW).unwrap();
        let own = self.ban(tag);
        for other in others {
            self.bans.note_seen(other.bans.hear(&told, NOW).unwrap(), own);
        }
    }

    /// Learns what the other's stamps are worth.
    fn meet(&self, other: &Node) {
        let (_, newest) = self.bans.to_be_seen().unwrap();
        self.bans.note_seen(other.bans.hear(&self.bans.meeting(), NOW).unwrap(), newest);
    }

    fn judge(&self, stamp: Stamp, tag: u64) -> &'static str {
        let tags = Tags::hashed(vec![tag], false);
        let subject = || Some(Subject { scheme: "http", host: "a".into(), url: "a/x".into() });
        match self.bans.judge(&Key::from_name(b"x"), stamp, &tags, subject) {
            Verdict::Counts => "counts",
            Verdict::Gone(by) => by,
            _ => "stale",
        }
    }
}

#[test]
fn without_bans_what_other_nodes_have_costs_nothing() {
    let (one, other) = (Node::new(), Node::new());
    assert!(one.bans.to_be_seen().is_none(), "nobody is met");
    assert_ne!(one.bans.now().book(), other.bans.now().book());
    let asked = |stamp| one.bans.judge(&Key::from_name(b"x"), stamp, &Tags::default(), || panic!("it is looked up"));
    assert_eq!(asked(other.bans.now()), Verdict::Counts);
    one.ban(1);
    assert_eq!(one.judge(other.bans.now(), 1), "tag");
    assert_eq!(one.judge(other.bans.now(), 2), "counts");
}

/// Whatever the order in which nodes hear of bans, none takes for young what another has asked for before a ban; and once they have met, each takes what the
/// others ask for for what it is.
#[test]
fn what_another_node_asked_for_before_a_ban_is_banned_and_what_it_asks_for_after_it_is_not() {
    let nodes = [Node::new(), Node::new(), Node::new()];
    // Their numbers differ.
    (0..7).for_each(|_| _ = nodes[1].ban(99));
    for (round, by) in [0, 1, 2, 2, 0, 1, 1, 0].into_iter().enumerate() {
        let tag = round as u64 % 3 + 1;
        let before = nodes.each_ref().map(|node| node.bans.now());
        let others: Vec<&Node> = (0..3).filter(|other| *other != by).map(|other| &nodes[other]).collect();
        nodes[by].spread(tag, &others);
        for node in &nodes {
            assert_eq!(before.map(|stamp| node.judge(stamp, tag)), ["tag"; 3], "round {round}");
        }
        for (at, node) in nodes.iter().enumerate() {
            (0..3).filter(|other| *other != at).for_each(|other| node.meet(&nodes[other]));
        }
        let after = nodes.each_ref().map(|node| node.bans.now());
        for node in &nodes {
            assert_eq!(before.map(|stamp| node.judge(stamp, tag)), ["tag"; 3], "round {round}");
            assert_eq!(after.map(|stamp| node.judge(stamp, tag)), ["counts"; 3], "round {round}");
        }
    }
}

/// What is known of other nodes' numbers is forgotten by a restart. Then all bans count for what they asked for, until they are met again.
#[test]
fn after_a_restart_what_others_asked_for_is_as_old_as_can_be() {
    let (mut one, other) = (Node::new(), Node::new());
    one.ban(1);
    assert_eq!(one.judge(other.bans.now(), 1), "tag", "nobody knows");
    one.meet(&other);
    let stamp = other.bans.now();
    assert_eq!((one.judge(stamp, 1), one.judge(one.bans.now(), 1)), ("counts", "counts"));
    one.restart();
    assert_eq!((one.judge(stamp, 1), one.judge(stamp, 2), one.judge(one.bans.now(), 1)), ("tag", "counts", "counts"));
    one.meet(&other);
    assert_eq!((one.judge(stamp, 1), one.judge(other.bans.now(), 1)), ("tag", "counts"));
    // A larger number than any of its own is not believed.
    assert_eq!(one.judge(Stamp(one.bans.now().0 + 1), 1), "tag");
}

/// What a number was begun for without a ban is told from what a later ban is about, after a restart too.
#[test]
fn a_number_that_was_begun_is_not_given_again() {
    let (one, mut other) = (Node::new(), Node::new());
    one.ban(1);
    other.ban(1);
    for _ in 0..5 {
        one.meet(&other);
        let stamp = other.bans.now();
        other.restart();
        assert!(other.bans.now().0 >= stamp.0, "{stamp:?}");
        assert_eq!(other.judge(stamp, 1), "counts");
        other.ban(1);
        assert_eq!(other.judge(stamp, 1), "tag");
        assert_eq!(one.judge(stamp, 1), "counts", "it was asked for after this one's ban");
    }
    // Numbers that were set aside are not written down one by one.
    let file = other.dir.path().join("tinaja.bans");
    let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&file).unwrap());
    one.meet(&other);
    let before = inode();
    (0..1000).for_each(|_| one.meet(&other));
    assert_eq!(inode(), before);
    (0..4096).for_each(|_| one.meet(&other));
    assert_ne!(inode(), before);
}

#[test]
fn what_a_node_does_not_take() {
    let (one, other) = (Node::new(), Node::new());
    let told = one.bans.told(&[Rule::All], true, NOW).unwrap();
    let why = |node: &Node, told: &[u8]| node.bans.hear(told, NOW).unwrap_err();
    assert!(why(&other, b"garbage").contains("does not understand"));
    assert!(why(&one, &told).contains("is a copy of that of the node"));
    let at = other.bans.now();
    other.bans.leave();
    assert!(
        why(&other, &told).contains("changing hands") && why(&other, &one.bans.meeting()).contains("changing hands")
    );
    other.bans.take(NOW + Duration::from_secs(1), 0);
    assert_eq!((other.bans.now(), other.judge(at, 1)), (at, "counts"), "nothing of it was done");
    let nowhere = Bans::away(None, true);
    nowhere.take(NOW, 0);
    assert!(nowhere.hear(&told, NOW).unwrap_err().contains("no directory"));
    other.bans.hear(&told, NOW).unwrap();
    assert_eq!(other.judge(at, 1), "stale");
    let too_much = one.bans.told(&vec![Rule::Prefix("a".repeat(4000)); 300], false, NOW);
    assert!(too_much.unwrap_err().to_string().contains("purge less at a time"));
}

/// A node that never stops purging costs another one no more than an operator could.
#[test]
fn a_million_bans_of_another_node_are_held_within_bounds() {
    let (one, other) = (Node::new(), Node::new());
    let before = other.bans.now();
    let mut told = 0;
    while told < 1_000_000 {
        let rules: Vec<Rule> = (told..told + 8000).map(|tag| Rule::Tag { host: None, tag }).collect();
        other.bans.hear(&one.bans.told(&rules, false, NOW).unwrap(), NOW).unwrap();
        told += 8000;
    }
    assert!(other.bans.table.read().count() <= table::MOST_BANS + 2);
    assert_eq!((other.judge(before, u64::MAX), other.judge(other.bans.now(), 1)), ("all", "counts"));
    assert!(std::fs::metadata(other.dir.path().join("tinaja.bans")).unwrap().len() < 64 << 20);
}
