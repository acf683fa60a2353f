use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use tinaja_store::Key;

use super::super::{Bans, Rule, Stamp, Subject, Tags, Verdict, hash};

const BEGINNING_BYTES: u64 = 48;

fn open(dir: &Path, epoch: u64) -> Bans {
    let bans = Bans::away(Some(dir), false);
    bans.take(UNIX_EPOCH + Duration::from_secs(1000), epoch);
    bans
}

fn tag(tag: &str) -> Rule {
    Rule::Tag { host: None, tag: hash(tag.as_bytes()) }
}

fn tags(tag: &str) -> Tags {
    Tags::hashed(vec![hash(tag.as_bytes())], false)
}

fn subject() -> Subject<'static> {
    Subject { scheme: "http", host: "a.example".into(), url: "a.example/x".into() }
}

fn ban(bans: &Bans, rule: Rule, soft: bool) -> Stamp {
    bans.ban(vec![rule], soft, UNIX_EPOCH).unwrap()
}

fn judge(bans: &Bans, stamp: Stamp, tag: &str) -> Verdict {
    bans.judge(&Key::from_name(tag.as_bytes()), stamp, &tags(tag), || Some(subject()))
}

fn is_unknown(bans: &Bans, stamp: Stamp, tag: &str) -> bool {
    matches!(judge(bans, stamp, tag), Verdict::Unknown(_))
}

/// A walk over a store that has these; what stays.
fn walk<'a>(bans: &Bans, objects: &[(Stamp, &'a str)]) -> Vec<&'a str> {
    let walk = bans.begin_walk().unwrap();
    let goes = |stamp: Stamp, tag: &str| bans.walk_over(&walk, (stamp, &tags(tag), true), || Some(subject()));
    let stay = objects.iter().filter(|(stamp, tag)| !goes(*stamp, tag)).map(|(_, tag)| *tag).collect();
    bans.end_walk(&walk);
    stay
}

/// The epoch that begins; none if nothing waits for one.
fn begin(bans: &Bans, number: u64) -> Option<u64> {
    let mut behind = None;
    bans.begin_epoch(|after| {
        behind = Some(after);
        Some(number)
    });
    behind
}

fn file_bytes(dir: &TempDir) -> u64 {
    fs::metadata(dir.path().join("tinaja.bans")).unwrap().len()
}

fn written(bans: &Bans) -> usize {
    bans.table.read().written()
}

/// A cache of which a hard purge has left the file, in epoch 5; when something older, and something younger, was asked for.
fn left() -> (TempDir, [Stamp; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path(), 0);
    let before = bans.now();
    let purged = ban(&bans, tag("red"), false);
    assert!(walk(&bans, &[(before, "red")]).is_empty());
    assert_eq!(begin(&bans, 5), Some(0));
    bans.leave_out(5);
    assert_eq!((written(&bans), file_bytes(&dir)), (0, BEGINNING_BYTES));
    (dir, [before, purged])
}

#[test]
fn purges_leave_the_file_once_an_index_is_saved_behind_a_walk() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path(), 0);
    let before = bans.now();
    ban(&bans, tag("red"), false);
    assert_eq!(begin(&bans, 1), None, "before a walk nothing waits for an epoch");
    assert_eq!(walk(&bans, &[(before, "red"), (before, "blue")]), ["blue"]);
    assert!(!bans.may_leave(u64::MAX), "nor does anything leave before one has begun");
    bans.begin_epoch(|_| None);
    assert!(!bans.may_leave(u64::MAX), "or could not");
    assert_eq!((begin(&bans, 5), begin(&bans, 6)), (Some(0), None));
    assert!(!bans.may_leave(4) && written(&bans) == 1);
    bans.leave_out(4);
    assert!(file_bytes(&dir) > BEGINNING_BYTES, "an index of the epoch is not on the disk yet");
    assert!(bans.may_leave(5));
    bans.leave_out(5);
    assert_eq!((written(&bans), file_bytes(&dir), bans.may_leave(u64::MAX)), (0, BEGINNING_BYTES, false));
    // Whoever opens the cache by that index, or a later one, has nothing to compare.
    for epoch in [5, 6] {
        let next = open(dir.path(), epoch);
        assert_eq!((next.now(), next.to_be_walked()), (bans.now(), None));
        assert_eq!(judge(&next, before, "blue"), Verdict::Counts);
    }
}

/// What was purged hard is not served stale either, and what was asked for behind the purges counts.
#[test]
fn by_an_older_index_everything_that_is_as_old_is_validated() {
    for epoch in [0, 4] {
        let (dir, [before, purged]) = left();
        let bans = open(dir.path(), epoch);
        assert!(is_unknown(&bans, before, "red") && is_unknown(&bans, before, "blue"));
        assert!(is_unknown(&bans, Stamp::default(), "blue"), "what versions without purges stored is older");
        assert_eq!(judge(&bans, purged, "red"), Verdict::Counts);
        // Those that come go before it.
        ban(&bans, tag("blue"), true);
        assert!(is_unknown(&bans, before, "blue") && matches!(judge(&bans, purged, "blue"), Verdict::Stale(..)));
        ban(&bans, tag("blue"), false);
        assert_eq!(judge(&bans, before, "blue"), Verdict::Gone("tag"));
    }
}

/// An epoch that began for another purge said that nothing was in doubt any more: the index was saved with what had been purged, and by it that was served.
#[test]
fn in_doubt_no_epoch_begins_for_other_purges() {
    let (dir, [before, _]) = left();
    let bans = open(dir.path(), 3);
    ban(&bans, tag("green"), false);
    assert_eq!(walk(&bans, &[(before, "red")]), ["red"]);
    assert!(begin(&bans, 9).is_none() && !bans.may_leave(u64::MAX));
    assert!(walk(&bans, &[]).is_empty());
    assert_eq!(begin(&bans, 9), Some(5), "nothing as old is left");
    bans.leave_out(9);
    assert_eq!((written(&bans), file_bytes(&dir)), (0, BEGINNING_BYTES));
    assert_eq!(judge(&open(dir.path(), 9), before, "blue"), Verdict::Counts);
    assert!(is_unknown(&open(dir.path(), 8), before, "blue"));
}

/// As long as anything is left that may have been purged. And when the cache is opened anew it is so again, until an epoch begins behind that.
#[test]
fn doubt_ends_once_nothing_as_old_is_left() {
    let (dir, [before, purged]) = left();
    let bans = open(dir.path(), 3);
    assert_eq!(bans.to_be_walked().map(Stamp::number), Some(1), "it is walked for though there is no purge");
    assert_eq!(walk(&bans, &[(before, "blue"), (purged, "red")]), ["blue", "red"], "nobody knows what of it goes");
    assert!(is_unknown(&bans, before, "blue") && begin(&bans, 9).is_none() && !bans.may_leave(u64::MAX));
    // It was validated, and what else was as old has left.
    assert_eq!(walk(&bans, &[(purged, "blue"), (purged, "red")]).len(), 2);
    assert_eq!(judge(&bans, before, "blue"), Verdict::Counts);
    assert!(is_unknown(&open(dir.path(), 3), before, "blue"), "what is left may be back by the same index");
    assert_eq!(begin(&bans, 9), Some(5), "behind the epoch that was lost");
    assert!(!bans.may_leave(8));
    bans.leave_out(9);
    assert_eq!(judge(&open(dir.path(), 9), before, "blue"), Verdict::Counts);
    assert!(is_unknown(&open(dir.path(), 8), before, "blue"));
    // A number that has left is given to no other purge.
    assert_eq!(ban(&open(dir.path(), 9), tag("green"), false).number(), 2);
}

#[test]
fn what_comes_behind_the_walk_stays() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path(), 0);
    let before = bans.now();
    ban(&bans, tag("red"), false);
    walk(&bans, &[]);
    begin(&bans, 5);
    // Another one comes, and one that something is stale by.
    ban(&bans, tag("blue"), false);
    ban(&bans, tag("green"), true);
    bans.leave_out(5);
    assert_eq!(written(&bans), 2);
    let next = open(dir.path(), 5);
    assert_eq!([judge(&next, before, "red"), judge(&next, before, "blue")], [Verdict::Counts, Verdict::Gone("tag")]);
    // Once the first has been walked for it waits for an epoch of its own.
    ban(&bans, tag("red"), false);
    walk(&bans, &[(before, "green")]);
    assert_eq!((begin(&bans, 6), written(&bans)), (Some(5), 3));
    ban(&bans, tag("yellow"), false);
    walk(&bans, &[(before, "green")]);
    assert_eq!(begin(&bans, 7), None, "those behind the epoch leave first, however many come");
    bans.leave_out(6);
    assert_eq!((written(&bans), written(&open(dir.path(), 6))), (2, 2));
    assert_eq!(begin(&bans, 7), Some(6));
    bans.leave_out(6);
    assert_eq!(written(&bans), 2, "the yellow one came behind that epoch");
    bans.leave_out(7);
    let next = open(dir.path(), 7);
    assert!(written(&next) == 1 && matches!(judge(&next, before, "green"), Verdict::Stale(..)));
    assert_eq!(judge(&next, before, "yellow"), Verdict::Counts);
}

/// A purge of the same that comes behind the walk is no reason to keep the old one, nor to lose the new one.
#[test]
fn the_same_again_is_one_that_stays() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path(), 0);
    ban(&bans, tag("red"), false);
    walk(&bans, &[]);
    begin(&bans, 5);
    let before = bans.now();
    ban(&bans, tag("red"), false);
    bans.leave_out(5);
    assert_eq!(judge(&open(dir.path(), 5), before, "red"), Verdict::Gone("tag"));
}

#[test]
fn nodes_of_a_cluster_believe_no_index_of_their_own() {
    let (dir, [before, purged]) = left();
    let node = Bans::away(Some(dir.path()), true);
    node.take(SystemTime::UNIX_EPOCH, 100);
    assert!(is_unknown(&node, before, "blue") && judge(&node, purged, "blue") == Verdict::Counts);
    assert!(node.to_be_walked().is_none(), "others have what is as old");
}

/// The file stays as it is, and they wait for another epoch.
#[test]
fn where_the_file_cannot_be_written_they_stay() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path(), 0);
    ban(&bans, tag("red"), false);
    walk(&bans, &[]);
    begin(&bans, 5);
    ban(&bans, tag("green"), false);
    walk(&bans, &[]);
    // A directory in the place of the new file, which cannot be removed as one.
    let new = dir.path().join("tinaja.bans.new");
    fs::create_dir(&new).unwrap();
    bans.leave_out(5);
    assert!(written(&bans) == 2 && file_bytes(&dir) > BEGINNING_BYTES && !bans.may_leave(5));
    fs::remove_dir(new).unwrap();
    assert_eq!(begin(&bans, 6), Some(0));
    bans.leave_out(6);
    assert_eq!((written(&bans), file_bytes(&dir)), (0, BEGINNING_BYTES));
    // Nor do they where the cache is another process's by then.
    ban(&bans, tag("blue"), false);
    walk(&bans, &[]);
    begin(&bans, 7);
    bans.leave();
    bans.leave_out(7);
    assert!(file_bytes(&dir) > BEGINNING_BYTES);
}
