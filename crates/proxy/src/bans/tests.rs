use bytes::Bytes;
use std::fs;
use std::time::Duration;

use super::table::{MOST_BANS, MOST_TRIED};
use super::*;

const NOW: SystemTime = UNIX_EPOCH;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn open(dir: &Path) -> Bans {
    let bans = Bans::away(Some(dir), false);
    bans.take(at(1000), 0);
    bans
}

fn tags(names: &[&str]) -> Tags {
    let mut fields = tinaja_http::message::Fields::default();
    for name in names {
        fields.append(tags::FIELDS[0].clone(), *name).unwrap();
    }
    Tags::take(&mut fields, true)
}

/// What becomes of what was asked for at `stamp` and is at this URL.
fn judge(bans: &Bans, stamp: Stamp, url: &str, names: &[&str]) -> &'static str {
    let (host, _) = url.split_once(['/', ':']).unwrap();
    let subject = Subject { scheme: "http", host: host.into(), url: url.into() };
    match bans.judge(&Key::from_name(url.as_bytes()), stamp, &tags(names), || Some(subject)) {
        Verdict::Counts => "counts",
        Verdict::Stale(_, by) | Verdict::Gone(by) => by,
        Verdict::Unknown(_) => "unknown",
    }
}

fn rule(selector: Selector) -> Rule {
    selector.rule().unwrap()
}

fn tag(name: &str) -> Rule {
    rule(Selector::Tag { tag: name.into(), host: None })
}

fn every_kind() -> Vec<Rule> {
    let text = |text: &str| text.to_owned();
    vec![
        rule(Selector::Url { url: text("http://a.example/one?q") }),
        rule(Selector::Prefix { url: text("https://a.example:443/img/") }),
        rule(Selector::Host { host: text("B.example") }),
        rule(Selector::Host { host: text("*.c.example") }),
        rule(Selector::Suffix { suffix: text(".css"), host: None }),
        rule(Selector::Suffix { suffix: text(".js"), host: Some(text("a.example")) }),
        rule(Selector::Regex { regex: text("^http://a.example/v[0-9]+/") }),
        tag("red"),
        rule(Selector::Tag { tag: text("blue"), host: Some(text("a.example")) }),
    ]
}

fn assert_every_kind(bans: &Bans, stamp: Stamp) {
    for (url, names, by) in [
        ("a.example/one?q", &[][..], "url"),
        ("a.example/one", &[], "counts"),
        ("a.example/one?q&r", &[], "counts"),
        ("a.example/img/a.png", &[], "prefix"),
        ("a.example/img/", &[], "prefix"),
        ("a.example/img", &[], "counts"),
        ("a.example:81/img/a", &[], "counts"),
        ("b.example/x", &[], "host"),
        ("b.example:81/x", &[], "host"),
        ("bb.example/x", &[], "counts"),
        ("c.example/x", &[], "counts"),
        ("x.c.example/x", &[], "domain"),
        ("x.y.c.example/x", &[], "domain"),
        ("xc.example/x", &[], "counts"),
        ("z.example/a.css?v=1", &[], "suffix"),
        ("z.example/a.css/b", &[], "counts"),
        ("z.example/a?b.css", &[], "counts"),
        ("a.example/a.js", &[], "suffix"),
        ("z.example/a.js", &[], "counts"),
        ("a.example/v12/x", &[], "regex"),
        ("a.example/x/v12/", &[], "counts"),
        ("z.example/x", &["green red"], "tag"),
        ("z.example/x", &["Red"], "counts"),
        ("z.example/x", &["blue"], "counts"),
        ("a.example/x", &["green, blue"], "tag"),
    ] {
        assert_eq!(judge(bans, stamp, url, names), by, "{url} {names:?}");
        assert_eq!(judge(bans, bans.now(), url, names), "counts", "{url} {names:?}, asked for since");
    }
}

#[test]
fn each_kind_fits_what_it_names_and_nothing_else_before_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    let before = bans.now();
    assert!(before.book() != 0 && before.number() == 0, "it is there before it is needed, so that it is missed");
    bans.ban(every_kind(), false, NOW).unwrap();
    assert_every_kind(&bans, before);
    let now = bans.now();
    drop(bans);
    let bans = open(dir.path());
    assert_eq!(bans.now(), now);
    assert_every_kind(&bans, before);
    // Written anew, it says the same.
    let length = || fs::metadata(dir.path().join("tinaja.bans")).unwrap().len();
    let many = || (0..4000).map(|_| tag("purple")).collect();
    bans.ban(many(), false, NOW).unwrap();
    let long = length();
    bans.ban(many(), false, NOW).unwrap();
    assert!(length() < long / 10);
    let again = open(dir.path());
    assert_eq!(again.now(), bans.now());
    assert_every_kind(&again, before);
}

#[test]
fn what_was_asked_for_before_a_ban_is_banned_whenever_it_is_judged() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    let mut stamps = vec![bans.now()];
    for _ in 0..3 {
        bans.ban(vec![tag("red"), tag("blue")], false, NOW).unwrap();
        stamps.push(bans.now());
    }
    bans.ban(vec![tag("green")], false, NOW).unwrap();
    for (stamp, by) in stamps.iter().zip(["tag", "tag", "tag", "counts"]) {
        assert_eq!((judge(&bans, *stamp, "a/x", &["red"]), judge(&bans, *stamp, "a/x", &["grey"])), (by, "counts"));
    }
}

/// Of an object with more tags than are kept any may be meant, but for those at other hosts.
#[test]
fn more_tags_than_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    let before = bans.now();
    let many = Tags::of(Bytes::new(), true).unwrap();
    let judge = |host: &'static str| {
        let subject = move || Some(Subject { scheme: "http", host: host.into(), url: format!("{host}/x") });
        bans.judge(&Key::from_name(host.as_bytes()), before, &many, subject)
    };
    bans.ban(vec![Rule::Tag { host: Some("a".into()), tag: 1 }], false, NOW).unwrap();
    assert_eq!((judge("a"), judge("b")), (Verdict::Gone("tag"), Verdict::Counts));
    bans.ban(vec![tag("red")], false, NOW).unwrap();
    assert_eq!(judge("b"), Verdict::Gone("tag"));
    bans.ban(vec![Rule::All], false, NOW).unwrap();
    assert!(bans.table.read().all().len() == 1 && judge("a") == Verdict::Gone("all"));
}

#[test]
fn tags_add_up() {
    let (one, other) = (tags(&["red", "blue"]), tags(&["blue", "green"]));
    assert_eq!(one.with(&other), tags(&["red", "blue", "green"]));
    assert!(one.with(&Tags::default()) == one && one.with(&one) == one);
    let names: Vec<String> = (0..1024).map(|n| n.to_string()).collect();
    let full = tags(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(!full.unlisted && full.with(&one).unlisted);
}

#[test]
fn soft_and_hard() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    let subject = || Some(Subject { scheme: "http", host: "a".into(), url: "a/x".into() });
    let place = Key::from_name(b"a");
    let before = bans.now();
    bans.ban(vec![rule(Selector::Host { host: "a".into() })], true, at(50)).unwrap();
    let between = bans.now();
    for _ in 0..2 {
        let bans = open(dir.path());
        assert_eq!(bans.judge(&place, before, &Tags::default(), subject), Verdict::Stale(at(50), "host"));
        assert_eq!(bans.judge(&place, between, &Tags::default(), subject), Verdict::Counts);
    }
    bans.ban(vec![Rule::All], false, at(60)).unwrap();
    bans.ban(vec![Rule::All], true, at(70)).unwrap();
    for bans in [&bans, &open(dir.path())] {
        // An older hard one goes before a newer soft one.
        assert_eq!(bans.judge(&place, between, &Tags::default(), subject), Verdict::Gone("all"));
        assert_eq!(
            bans.judge(&place, Stamp::new(bans.now().book(), 2), &Tags::default(), subject),
            Verdict::Stale(at(70), "all")
        );
        assert_eq!(bans.table.read().count(), 2, "one of everything makes older ones useless");
    }
}

#[test]
fn too_many_become_one_of_everything_that_is_as_old() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    let before = bans.now();
    let many = |range: std::ops::Range<usize>| range.map(|n| tag(&n.to_string())).collect::<Vec<_>>();
    bans.ban(many(0..MOST_BANS / 2), false, NOW).unwrap();
    let middle = bans.now();
    bans.ban(many(MOST_BANS / 2..MOST_BANS), false, NOW).unwrap();
    assert_eq!((judge(&bans, before, "a/x", &["no such"]), bans.table.read().count()), ("counts", MOST_BANS));
    // The same ones again take no room.
    bans.ban(many(0..100), false, NOW).unwrap();
    assert_eq!((judge(&bans, before, "a/x", &["no such"]), bans.table.read().count()), ("counts", MOST_BANS));
    bans.ban(vec![tag("onemore")], false, NOW).unwrap();
    for bans in [&bans, &open(dir.path())] {
        assert!(bans.table.read().count() <= MOST_BANS * 7 / 8 + 2);
        assert_eq!(judge(bans, before, "a/x", &["no such"]), "all");
        assert_eq!(judge(bans, middle, "a/x", &["no such"]), "counts");
        assert_eq!(judge(bans, middle, "a/x", &["65000"]), "tag");
    }
    let figures = format!("{:?}", bans.families());
    assert!(figures.contains("tinaja_collapsed_bans_total"), "{figures}");
    // Few are tried one by one.
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    let regexes = |range: std::ops::Range<usize>| range.map(|n| Rule::Regex(format!("x{n}$"))).collect::<Vec<_>>();
    bans.ban(regexes(0..1), false, NOW).unwrap();
    let first = bans.now();
    bans.ban(regexes(1..MOST_TRIED), false, NOW).unwrap();
    assert_eq!(judge(&bans, Stamp::default(), "a/y", &[]), "counts");
    bans.ban(regexes(MOST_TRIED..MOST_TRIED + 1), false, NOW).unwrap();
    assert_eq!(judge(&bans, Stamp::default(), "a/y", &[]), "all");
    assert_eq!((judge(&bans, first, "a/y", &[]), judge(&bans, first, "a/x100", &[])), ("counts", "regex"));
}

#[test]
fn nested_prefixes_are_all_found() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    let mut stamps = Vec::new();
    for prefix in ["a/x/y/z", "a/x/yy", "a/x/", "a/", "a/w", "a/x/y/zz/q", "b/"] {
        stamps.push(bans.now());
        bans.ban(vec![Rule::Prefix(prefix.into())], false, NOW).unwrap();
    }
    for (url, newest) in
        [("a/x/y/zzz", 4), ("a/x/y/zz/q", 6), ("a/x", 4), ("a/w/x/y", 5), ("b/", 7), ("aa/", 0), ("c/", 0)]
    {
        for (n, stamp) in stamps.iter().enumerate() {
            assert_eq!(judge(&bans, *stamp, url, &[]) == "prefix", n < newest, "{url} before {n}");
        }
    }
}

#[test]
fn a_purge_that_was_cut_off_goes_and_the_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tinaja.bans");
    let bans = open(dir.path());
    bans.ban(vec![tag("red")], false, NOW).unwrap();
    let (whole, stamp) = (fs::read(&path).unwrap(), bans.now());
    bans.ban(vec![tag("blue")], false, NOW).unwrap();
    let both = fs::read(&path).unwrap();
    for length in whole.len()..both.len() {
        fs::write(&path, &both[..length]).unwrap();
        let bans = open(dir.path());
        assert_eq!(bans.now(), stamp, "{length}");
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert_eq!(
            (judge(&bans, Stamp::default(), "a/x", &["red"]), judge(&bans, stamp, "a/x", &["blue"])),
            ("tag", "counts")
        );
    }
    // And the next one stands behind the others.
    let bans = open(dir.path());
    bans.ban(vec![tag("green")], false, NOW).unwrap();
    let bans = open(dir.path());
    assert_eq!(
        (judge(&bans, Stamp::default(), "a/x", &["red"]), judge(&bans, stamp, "a/x", &["green"])),
        ("tag", "tag")
    );
}

/// Whatever byte is wrong, nothing that was purged counts.
#[test]
fn a_damaged_file_makes_everything_stale() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tinaja.bans");
    let bans = open(dir.path());
    bans.ban(vec![tag("red"), Rule::Host("a".into())], false, NOW).unwrap();
    let (sound, stamp) = (fs::read(&path).unwrap(), bans.now());
    for place in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[place] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        let bans = open(dir.path());
        for stamp in [Stamp::default(), stamp] {
            assert_ne!(judge(&bans, stamp, "z/x", &[]), "counts", "byte {place}");
        }
        assert_eq!(fs::read(dir.path().join("tinaja.bans.damaged")).unwrap(), damaged);
        // What is fetched from now on counts, after a restart too.
        let now = bans.now();
        let again = open(dir.path());
        assert_eq!((again.now(), judge(&again, now, "a/x", &["red"])), (now, "counts"));
        assert_ne!(judge(&again, stamp, "z/x", &[]), "counts");
        again.ban(vec![tag("red")], false, NOW).unwrap();
        assert_eq!(judge(&again, now, "z/x", &["red"]), "tag");
    }
    // And one that is gone, or an old copy put back: what is stored has seen newer purges.
    fs::remove_file(&path).unwrap();
    assert_eq!(judge(&open(dir.path()), stamp, "z/x", &[]), "unknown");
    assert_eq!(judge(&open(dir.path()), Stamp::default(), "z/x", &[]), "counts");
    fs::write(&path, &sound).unwrap();
    assert_eq!(judge(&open(dir.path()), Stamp(stamp.0 + 1), "z/x", &[]), "unknown");
}

#[test]
fn what_cannot_be_written_or_read() {
    let ban = |bans: &Bans| bans.ban(vec![Rule::All], false, NOW).unwrap_err().to_string();
    let nowhere = Bans::away(None, false);
    assert!(ban(&nowhere).contains("changing hands"));
    nowhere.take(NOW, 0);
    assert!(ban(&nowhere).contains("whole device"));
    let dir = tempfile::tempdir().unwrap();
    // No link is followed, to be written to or to be read.
    let (path, other) = (dir.path().join("tinaja.bans"), dir.path().join("other"));
    fs::write(&other, "mine").unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    let linked = open(dir.path());
    assert!(ban(&linked).contains("tinaja.bans"));
    assert_eq!(
        (judge(&linked, Stamp::default(), "a/x", &[]), judge(&linked, linked.now(), "a/x", &[])),
        ("all", "counts")
    );
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&other, dir.path().join("tinaja.bans.new")).unwrap();
    open(dir.path()).ban(vec![Rule::All], false, NOW).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"mine");
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_ne!(judge(&open(dir.path()), Stamp::default(), "a/x", &[]), "counts");
    fs::remove_dir(&path).unwrap();
    let gone = open(&dir.path().join("missing"));
    assert!(ban(&gone).contains("nothing was purged") && judge(&gone, Stamp::default(), "a/x", &[]) == "counts");
    // It has to be asked again, and then it holds.
    fs::create_dir(dir.path().join("missing")).unwrap();
    gone.ban(vec![Rule::All], false, NOW).unwrap();
    assert_eq!(judge(&gone, Stamp::default(), "a/x", &[]), "all");
}

#[test]
fn a_file_of_useless_bans_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tinaja.bans");
    let bans = open(dir.path());
    let length = || fs::metadata(&path).unwrap().len();
    let mut longest = 0;
    for _ in 0..20 {
        bans.ban((0..500).map(|_| tag("red")).collect(), false, NOW).unwrap();
        longest = longest.max(length());
    }
    assert!(length() < longest, "{longest}");
    assert!(longest < 300_000, "{longest}");
    let again = open(dir.path());
    assert_eq!((again.now(), again.table.read().count()), (bans.now(), 1));
    // And one that is long, though not of many.
    bans.ban((0..20_000).map(|n| tag(&n.to_string())).collect(), false, NOW).unwrap();
    let long = Rule::Prefix(format!("a/{}", "x".repeat(4000)));
    let mut longest = 0;
    for _ in 0..10 {
        bans.ban(vec![long.clone(); 1000], false, NOW).unwrap();
        longest = longest.max(length());
    }
    assert!(longest > 30 << 20 && longest <= 32 << 20 && length() < longest, "{longest}");
    let again = open(dir.path());
    assert_eq!((again.now(), again.table.read().count()), (bans.now(), 20_002));
}

#[test]
fn the_format_is_what_it_was() {
    let bans = every_kind().into_iter().chain([Rule::All]).zip(7..).map(|(rule, number)| {
        record::bytes_of(0x0012_3456, &Ban { number, rule, soft: number % 2 == 0, at: 1_700_000_000 })
    });
    let left = record::Left { number: 5, epoch: 1_700_000_000 };
    let beginning = record::Beginning { book: 0x0012_3456, number: 6, left };
    let bytes = [beginning.bytes().to_vec(), bans.flatten().collect()].concat();
    let golden = include_bytes!("../../tests/golden/bans-v2.bin");
    assert!(bytes == golden[..], "{}", bytes.escape_ascii());
    let whole = record::BEGINNING_BYTES;
    let (read, length) = record::read(0x0012_3456, whole, &golden[whole..]).unwrap();
    assert_eq!((read.len(), whole + length), (10, golden.len()));
    assert_eq!(record::Beginning::of(golden), Ok((beginning, whole)));
    assert!((0..whole).all(|most| record::Beginning::of(&golden[..most]).is_err()));
    for bit in 0..whole * 8 {
        let mut damaged = golden.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(record::Beginning::of(&damaged).is_err(), "bit {bit}");
    }
}

/// A file from before purges left it. It is read, goes on as it is, and is of the present version once it is written anew.
#[test]
fn a_file_of_the_first_version_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (path, golden) = (dir.path().join("tinaja.bans"), include_bytes!("../../tests/golden/bans-v1.bin"));
    fs::write(&path, golden).unwrap();
    let bans = open(dir.path());
    let count = || bans.table.read().all().len();
    assert_eq!((bans.now(), count()), (Stamp::new(0x0012_3456, 16), 6), "those that a soft one of everything leaves");
    bans.ban(vec![tag("red")], false, NOW).unwrap();
    let written = fs::read(&path).unwrap();
    assert!(written[..golden.len()] == golden[..] && written.len() > golden.len());
    let again = open(dir.path());
    assert_eq!((again.now().number(), again.table.read().all().len()), (17, 7));
    let damaged: Vec<u8> =
        golden.iter().enumerate().map(|(at, byte)| if at == 17 { byte ^ 1 } else { *byte }).collect();
    fs::write(&path, damaged).unwrap();
    assert_eq!(judge(&open(dir.path()), bans.now(), "a.example/", &[]), "unknown");
}

#[test]
fn tags_of_one_answer() {
    let one = |tag: &str| hash(tag.as_bytes());
    let mut sorted = [one("a"), one("b"), one("c")];
    sorted.sort_unstable();
    assert!(tags(&["a b,c", " a,, b\t"]).hashes().eq(sorted));
    assert!(tags(&["", " , "]).is_empty());
    let many = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    let most = tags(&[&many(tags::MOST_TAGS)]);
    assert_eq!((most.hashes().count(), most.unlisted), (tags::MOST_TAGS, false));
    for count in [tags::MOST_TAGS + 1, 50_000] {
        let more = tags(&[&many(count)]);
        assert_eq!((more.bytes().len(), more.unlisted), (8 * tags::MOST_TAGS, true));
    }
    // One with more than are kept is banned by any tag.
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    bans.ban(vec![tag("nosuch")], false, NOW).unwrap();
    assert_eq!(judge(&bans, Stamp::default(), "a/x", &[&many(tags::MOST_TAGS + 1)]), "tag");
    assert_eq!(judge(&bans, Stamp::default(), "a/x", &[&many(tags::MOST_TAGS)]), "counts");
    let large = "x".repeat(1 << 20);
    assert_eq!(tags(&[&large]).hashes().collect::<Vec<_>>(), [one(&large)]);
    assert_eq!(
        (Tags::of(vec![0; 7].into(), false), Tags::of(vec![0; 8 * tags::MOST_TAGS + 8].into(), false)),
        (None, None)
    );
}

#[test]
fn what_names_no_objects() {
    let text = |text: &str| text.to_owned();
    let host = |host: &str| Selector::Host { host: text(host) };
    let regex = |regex: &str| Selector::Regex { regex: text(regex) };
    let tag = |tag: &str| Selector::Tag { tag: text(tag), host: None };
    let suffix = |suffix: &str, host: Option<&str>| Selector::Suffix { suffix: text(suffix), host: host.map(text) };
    for (selector, word) in [
        (Selector::Url { url: text("/x") }, "is no URL"),
        (Selector::Prefix { url: text("a.example/x") }, "is no URL"),
        (Selector::Prefix { url: text("http://") }, "is no URL"),
        (Selector::Prefix { url: format!("http://a/{}", "x".repeat(5000)) }, "at most 4096"),
        (host("a:80"), "without a port"),
        (host("http://a/"), "is no host"),
        (host(""), "is no host"),
        (suffix("", None), "end of a path"),
        (suffix("a?b", None), "end of a path"),
        (suffix(".css", Some("*.a")), "names many hosts"),
        (regex("("), "unclosed group"),
        (regex("((a{100}){100}){100}"), "256 KiB"),
        (regex(&"(".repeat(4000)), "is of no use"),
        (tag(""), "is no tag"),
        (tag("a b"), "is no tag"),
        (tag("a,b"), "is no tag"),
        (tag(&"x".repeat(1 << 20)), "at most 4096"),
    ] {
        let error = selector.check().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(rule(host("[::1]")), Rule::Host("::1".into()));
    assert_eq!(rule(Selector::Prefix { url: text("HTTP://A.example:80") }), Rule::Prefix("a.example/".into()));
}

/// One call, whose work does not depend on how many objects there are; what each of them then costs is looked up by its ten tags.
#[test]
fn a_million_objects_with_ten_tags_each_are_purged_by_one_call() {
    const OBJECTS: u64 = 1_000_000;
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    bans.ban((0..10_000).map(|n| tag(&format!("other-{n}"))).collect(), false, NOW).unwrap();
    let stamp = bans.now();
    let tags_of = |object: u64| -> Tags {
        let mut hashes: Vec<u64> =
            (0..9).map(|n| object.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(n * 7)).collect();
        hashes.push(hash(b"site"));
        hashes.sort_unstable();
        Tags::of(hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect::<Vec<_>>().into(), false).unwrap()
    };
    let subject =
        || Some(Subject { scheme: "http", host: "www.example.org".into(), url: "www.example.org/a/b/c.html".into() });
    let began = std::time::Instant::now();
    bans.ban(vec![tag("site")], false, NOW).unwrap();
    let took = began.elapsed();
    let (mut gone, now) = (0, bans.now());
    for object in 0..OBJECTS {
        let (tags, place) = (tags_of(object), Key::from_name(&object.to_le_bytes()));
        gone += u64::from(bans.judge(&place, stamp, &tags, subject) == Verdict::Gone("tag"));
        assert_eq!(bans.judge(&place, now, &tags, || panic!("not asked for")), Verdict::Counts);
    }
    println!("one purge took {took:?}; all of {OBJECTS} objects were judged in {:?}", began.elapsed());
    assert_eq!((gone, bans.table.read().count()), (OBJECTS, 10_001));
}

/// That none fits is found out once for each new ban, and for each version of an object.
#[test]
fn what_was_compared_with_all_bans_is_not_compared_again() {
    let dir = tempfile::tempdir().unwrap();
    let bans = open(dir.path());
    let (stamp, place) = (bans.now(), Key::from_name(b"a"));
    let subject = || Some(Subject { scheme: "http", host: "a".into(), url: "a/x".into() });
    let judged = |names: &[&str]| {
        let mut looked_up = false;
        let verdict = bans.judge(&place, stamp, &tags(names), || {
            looked_up = true;
            subject()
        });
        (verdict, looked_up)
    };
    let (counts, gone) = (Verdict::Counts, Verdict::Gone("tag"));
    assert_eq!(judged(&["red"]), (counts, false));
    bans.ban(vec![tag("blue")], false, NOW).unwrap();
    assert_eq!([judged(&["red"]), judged(&["red"])], [(counts, true), (counts, false)]);
    // Another answer at the same place, which had been asked for before the ban too.
    assert_eq!([judged(&["blue"]), judged(&["blue"])], [(gone, true), (gone, true)]);
    bans.ban(vec![tag("red")], false, NOW).unwrap();
    assert_eq!([judged(&["red"]), judged(&["red"])], [(gone, true), (gone, true)]);
    bans.leave();
    std::fs::remove_file(dir.path().join("tinaja.bans")).unwrap();
    bans.take(at(2000), 0);
    assert_eq!(judged(&["green"]).0, Verdict::Unknown(at(2000)));
}
