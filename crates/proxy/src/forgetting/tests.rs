use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use tempfile::TempDir;
use tinaja_http::key::join;
use tinaja_http::message::ResponseHead;
use tinaja_store::{Commit, Hint, Hit, Key, Reference, Updated, Writer};

use super::super::only_what_may_come;
use super::*;
use crate::bans::{Rule, Subject, Tags, Verdict, hash};
use crate::storage::Nothing;
use crate::stored::{Facts, verdict};

/// A store of a proxy's, and its bans.
struct House {
    dir: TempDir,
    bans: Arc<Bans>,
    /// As the exchange has it.
    store: Storage,
}

fn taken(dir: &Path, is_node: bool) -> Arc<Bans> {
    let bans = Bans::away(Some(dir), is_node);
    bans.take(UNIX_EPOCH, 0);
    Arc::new(bans)
}

fn house() -> House {
    let dir = tempfile::tempdir().unwrap();
    let bans = taken(dir.path(), false);
    let store = only_what_may_come(Arc::new(Reference::new()), bans.clone());
    House { dir, bans, store }
}

fn name(path: &str) -> Name {
    Name::from_primary(&join(&["http", "a.example", "80", "", path]))
}

fn tag(tag: &str) -> Rule {
    Rule::Tag { host: None, tag: hash(tag.as_bytes()) }
}

fn head_of(kind: Kind, path: &str, stamp: Stamp, tag: &str) -> Bytes {
    let received = SystemTime::UNIX_EPOCH;
    let facts = Facts { fresh_until: received + Duration::from_secs(60), stamp, ..Facts::bare(received) };
    let (tags, header) = (Tags::hashed(vec![hash(tag.as_bytes())], false), ResponseHead::new(StatusCode::OK));
    let pieces = if kind == Kind::Pieces { &[7; 40][..] } else { &[] };
    StoredHead::encode_pieces(kind, &facts, name(path).primary(), pieces, &tags, &header).unwrap()
}

impl House {
    /// Begins to store what was asked for at that stamp.
    async fn write(&self, path: &str, stamp: Stamp, tag: &str) -> Writer {
        let head = head_of(Kind::Whole, path, stamp, tag);
        let mut writer = self.store.put(&name(path).place(), head, Hint::default());
        writer.write("body".into()).await;
        writer
    }

    async fn put(&self, path: &str, stamp: Stamp, tag: &str) -> bool {
        matches!(self.write(path, stamp, tag).await.commit().await, Commit::Stored { .. })
    }

    async fn hit(&self, path: &str) -> Option<Hit> {
        self.store.find(&name(path).place()).await
    }

    /// What a request gets: nothing, what is gone, or not.
    async fn served(&self, path: &str) -> Option<Verdict> {
        let hit = self.hit(path).await?;
        let head = StoredHead::decode(&hit.head).unwrap();
        Some(verdict(&self.bans, &name(path), &name(path).place(), &head))
    }

    fn ban(&self, rule: Rule, soft: bool) -> Stamp {
        self.bans.ban(vec![rule], soft, UNIX_EPOCH).unwrap()
    }

    async fn forget(&self) -> Option<Stamp> {
        forget(&self.bans, &self.store, &Clock::system()).await
    }

    /// Purges that objects are compared with.
    fn held(&self) -> f64 {
        gauge_of(&self.bans, "tinaja_bans")
    }

    /// Purges that whoever opens the cache next goes by.
    fn written(&self) -> f64 {
        let copy = tempfile::tempdir().unwrap();
        fs::copy(self.dir.path().join("tinaja.bans"), copy.path().join("tinaja.bans")).unwrap();
        gauge_of(&taken(copy.path(), false), "tinaja_bans")
    }
}

fn gauge_of(bans: &Bans, name: &str) -> f64 {
    let families = bans.families();
    let family = families.iter().find(|family| family.name() == name).unwrap();
    family.get_metric().iter().map(|metric| metric.get_gauge().get_value() + metric.get_counter().get_value()).sum()
}

fn not_asked() -> Option<Subject<'static>> {
    panic!("there is no ban to compare it with")
}

fn stale(verdict: Option<Verdict>) -> bool {
    matches!(verdict, Some(Verdict::Stale(..)))
}

/// All that is purged hard goes, all else stays, and afterwards a hit costs one comparison. A kill at any time leaves all purges in the file.
#[tokio::test(start_paused = true)]
async fn a_hard_purge_is_forgotten_once_nothing_is_left_of_it() {
    let house = house();
    let before = house.bans.now();
    assert!(house.put("/red", before, "red").await && house.put("/blue", before, "blue").await);
    house.ban(tag("red"), false);
    house.ban(Rule::Host("b.example".into()), false);
    assert_eq!((house.forget().await, house.held(), house.written()), (Some(house.bans.now()), 0.0, 2.0));
    assert!(house.hit("/red").await.is_none() && house.hit("/blue").await.is_some());
    assert_eq!(gauge_of(&house.bans, "tinaja_forgotten_bans_total"), 2.0);
    let of_blue = Tags::hashed(vec![hash(b"blue")], false);
    assert_eq!(house.bans.judge(&name("/blue").place(), before, &of_blue, not_asked), Verdict::Counts);
    assert_eq!(house.forget().await, None, "there is nothing to forget");
    // Whoever opens the cache next may find what the store has forgotten, and goes by all of them.
    let next = taken(house.dir.path(), false);
    let red = StoredHead::decode(&head_of(Kind::Whole, "/red", before, "red")).unwrap();
    assert_eq!(verdict(&next, &name("/red"), &name("/red").place(), &red), Verdict::Gone("tag"));
    // A purge of the same takes no more room in the file, and is one again.
    house.ban(tag("red"), false);
    assert_eq!((house.held(), house.written()), (1.0, 2.0));
}

/// Once the store's index is on the disk that has nothing of it, a purge leaves the file too; and where a store is opened by an older one, what is
/// as old is validated.
#[tokio::test(start_paused = true)]
async fn a_purge_leaves_the_file_once_the_store_has_saved_that_nothing_is_left() {
    let (house, clock) = (house(), Clock::system());
    let before = house.bans.now();
    assert!(house.put("/red", before, "red").await && house.put("/blue", before, "blue").await);
    house.ban(tag("red"), false);
    shorten(&house.bans, &house.store, &clock).await;
    assert!(house.store.saved_epoch() == 0 && house.forget().await.is_some());
    shorten(&house.bans, &house.store, &clock).await;
    assert_eq!((house.written(), house.store.saved_epoch()), (1.0, 0), "an epoch has begun");
    house.store.flush().await.unwrap();
    shorten(&house.bans, &house.store, &clock).await;
    assert_eq!((house.written(), gauge_of(&house.bans, "tinaja_written_bans")), (0.0, 0.0));
    let next = |epoch| {
        let bans = Bans::away(Some(house.dir.path()), false);
        bans.take(UNIX_EPOCH, epoch);
        let blue = StoredHead::decode(&head_of(Kind::Whole, "/blue", before, "blue")).unwrap();
        verdict(&bans, &name("/blue"), &name("/blue").place(), &blue)
    };
    assert_eq!(next(house.store.saved_epoch()), Verdict::Counts);
    assert!(matches!(next(0), Verdict::Unknown(_)));
}

/// A 304 that was asked for before a soft purge made the object fresh after it, once the purge was forgotten.
#[tokio::test(start_paused = true)]
async fn a_304_from_before_a_soft_purge_does_not_outlive_it() {
    let house = house();
    let first = house.bans.now();
    assert!(house.put("/a", first, "red").await);
    house.ban(Rule::Host("b.example".into()), false);
    let asked = house.bans.now();
    let purged = house.ban(tag("red"), true);
    assert_eq!(house.forget().await, Some(purged));
    assert!(house.held() == 1.0 && stale(house.served("/a").await), "it is there, so its purge is not forgotten");
    let validate = |stamp| {
        let new = head_of(Kind::Whole, "/a", stamp, "red");
        house.store.update_head(&name("/a").place(), Box::new(move |_| Some(new)))
    };
    assert_eq!(validate(asked).await, Ok(Updated::Unchanged), "it comes too late");
    assert_eq!((house.forget().await, house.held()), (Some(purged), 1.0));
    assert!(stale(house.served("/a").await));
    assert_eq!(
        validate(first).await,
        Ok(Updated::Unchanged),
        "nor does it stand anywhere else than where the walk saw it"
    );
    // And one that was asked for after the purge makes it fresh.
    assert_eq!(validate(house.bans.now()).await, Ok(Updated::Done));
    assert_eq!((house.served("/a").await, house.forget().await), (Some(Verdict::Counts), Some(purged)));
    assert_eq!((house.served("/a").await, house.held()), (Some(Verdict::Counts), 0.0));
}

/// A purged beginning came back when it was completed: it had been open while the walk passed.
#[tokio::test(start_paused = true)]
async fn what_was_being_stored_when_it_was_purged_is_waited_for() {
    let house = house();
    let before = house.bans.now();
    let open = house.write("/a", before, "red").await;
    let purged = house.ban(tag("red"), false);
    assert_eq!((house.forget().await, house.held()), (None, 1.0), "something older is open");
    assert!(matches!(house.served("/a").await, Some(Verdict::Gone(_))), "whoever asks now does not read along");
    let list = head_of(Kind::Pieces, "/a", before, "red");
    drop(open.commit_beginning(list).await);
    let other = house.write("/b", before, "red").await;
    assert_eq!(house.forget().await, None);
    assert!(matches!(other.commit().await, Commit::Stored { .. }));
    assert!(matches!(house.served("/b").await, Some(Verdict::Gone(_))));
    assert_eq!((house.forget().await, house.held()), (Some(purged), 0.0));
    assert!(house.hit("/a").await.is_none() && house.hit("/b").await.is_none());
    // What was asked for before and comes now is not found while it comes, nor afterwards.
    let late = house.write("/a", before, "red").await;
    assert!(house.hit("/a").await.is_none());
    assert!(matches!(late.commit().await, Commit::NotStored(_)) && house.hit("/a").await.is_none());
    assert!(!house.bans.takes(before) && house.put("/a", purged, "red").await);
}

/// What a client has had stored since is younger, and stays.
#[tokio::test(start_paused = true)]
async fn what_came_after_the_purge_stays() {
    let house = house();
    assert!(house.put("/a", house.bans.now(), "red").await);
    let purged = house.ban(tag("red"), false);
    assert!(house.put("/a", purged, "red").await);
    assert_eq!((house.forget().await, house.held()), (Some(purged), 0.0));
    assert_eq!(house.served("/a").await, Some(Verdict::Counts));
}

/// One that comes while a walk goes on is not forgotten by it, nor one of a cache that has changed hands meanwhile.
#[tokio::test(start_paused = true)]
async fn only_what_was_there_when_the_walk_began_is_forgotten() {
    let house = house();
    let before = house.bans.now();
    house.ban(tag("red"), false);
    let walk = house.bans.begin_walk().unwrap();
    house.ban(tag("blue"), false);
    assert_eq!((house.bans.end_walk(&walk), house.held()), (1, 1.0));
    let walk = house.bans.begin_walk().unwrap();
    house.bans.leave();
    assert!(house.bans.begin_walk().is_none());
    house.bans.take(UNIX_EPOCH, 0);
    assert_eq!((house.bans.end_walk(&walk), house.held()), (0, 2.0), "both were written down");
    assert!(!house.bans.takes(before), "and what comes late does so still");
    // Of a node's bans none is forgotten: other nodes have what is as old.
    let dir = tempfile::tempdir().unwrap();
    let node = taken(dir.path(), true);
    node.ban(vec![Rule::All], false, UNIX_EPOCH).unwrap();
    assert!(node.to_be_walked().is_none() && node.begin_walk().is_none());
}

/// All kinds are forgotten, and those of everything. One with more tags than are kept is compared with none afterwards.
#[tokio::test(start_paused = true)]
async fn each_kind_is_forgotten() {
    let house = house();
    let host = || "a.example".to_owned();
    let rules = [
        Rule::All,
        Rule::Url("a.example/x".into()),
        Rule::Prefix("a.example/x".into()),
        Rule::Host(host()),
        Rule::Domain("example".into()),
        Rule::Suffix { host: None, suffix: ".css".into() },
        Rule::Regex("x".into()),
        tag("red"),
        Rule::Tag { host: Some(host()), tag: 7 },
    ];
    for soft in [true, false] {
        let before = house.bans.now();
        assert!(house.put("/x.css", before, "red").await);
        rules.iter().for_each(|rule| _ = house.ban(rule.clone(), soft));
        let newest = house.bans.now();
        assert_eq!((house.held(), house.forget().await), (9.0, Some(newest)));
        if soft {
            assert!(house.held() == 1.0 && stale(house.served("/x.css").await), "the newest of those that fit");
            drop(house.store.remove(&name("/x.css").place()).await);
            assert!(house.forget().await.is_some());
        }
        assert!(house.held() == 0.0 && house.hit("/x.css").await.is_none());
        let many = Tags::hashed((0..2000).collect(), true);
        assert_eq!(house.bans.judge(&Key::from_name(b"x"), before, &many, not_asked), Verdict::Counts);
    }
    assert_eq!(house.written(), 9.0, "the hard ones have taken the place of the soft ones");
}

#[test]
fn when_a_walk_is_due() {
    let (mut due, start) = (Due::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    let stamp = |number| Some(Stamp(number));
    assert!(!due.is_now(None, at(0)) && !due.is_now(stamp(1), at(1)));
    assert!(!due.is_now(stamp(2), at(5)), "another one has come");
    assert!(!due.is_now(stamp(2), at(9)) && due.is_now(stamp(2), at(10)));
    due.ended(Stamp(2), (at(10), at(40)), true);
    assert!(!due.is_now(stamp(2), at(400)) && due.is_now(stamp(2), at(3640)), "once an hour for what is left");
    // One each second: it is not put off for ever, and rests as long as it took.
    for second in 3700..3760 {
        assert!(!due.is_now(stamp(second), at(second)));
    }
    assert!(due.is_now(stamp(3760), at(3760)));
    due.ended(Stamp(3760), (at(3760), at(3900)), true);
    assert!(!due.is_now(stamp(3900), at(4030)) && due.is_now(stamp(3900), at(4040)));
    due.ended(Stamp(3900), (at(4040), at(4040)), false);
    assert!(!due.is_now(stamp(3900), at(4049)) && due.is_now(stamp(3900), at(4050)), "where none could begin");
    assert!(!due.is_now(None, at(4051)) && !due.is_now(stamp(4000), at(4052)));
}

/// A store that cannot say what it has forgets nothing, and so do its bans.
#[tokio::test(start_paused = true)]
async fn where_a_store_cannot_be_walked_purges_stay() {
    let house = house();
    let purged = house.ban(tag("red"), false);
    let store: Storage = Arc::new(Nothing(Clock::system()));
    assert_eq!((forget(&house.bans, &store, &Clock::system()).await, house.held()), (Some(purged), 1.0));
    house.store.close().await.unwrap();
    assert_eq!((house.forget().await, house.held()), (Some(purged), 1.0), "it is closed");
    assert_eq!(gauge_of(&house.bans, "tinaja_ban_walks_total"), 2.0);
}
