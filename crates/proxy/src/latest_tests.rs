use tinaja_clock::ManualClock;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn the_format_is_the_golden_files() {
    let golden = include_bytes!("../tests/golden/clock-v1.bin");
    assert_eq!(bytes_of(at(1_795_651_200)), *golden);
    assert_eq!(time_of(golden), Ok(at(1_795_651_200)));
    for seconds in [0, 1, LAST_SECOND] {
        assert_eq!(time_of(&bytes_of(at(seconds))), Ok(at(seconds)));
    }
}

#[test]
fn what_is_damaged_or_newer_says_nothing() {
    let whole = bytes_of(at(1_795_651_200));
    for length in 0..whole.len() {
        assert_eq!(time_of(&whole[..length]), Err(Damage::Damaged), "{length} bytes");
    }
    assert_eq!(time_of(&[&whole[..], b"x"].concat()), Err(Damage::Damaged));
    for at in 0..whole.len() {
        let mut bytes = whole;
        bytes[at] ^= 1;
        assert_eq!(time_of(&bytes), Err(Damage::Damaged), "byte {at}");
    }
    let sound = |change: fn(&mut [u8])| {
        let mut bytes = whole;
        let (said, check) = bytes.split_at_mut(24);
        change(said);
        check.copy_from_slice(&check_of(said));
        time_of(&bytes)
    };
    assert_eq!(sound(|said| said[8] = 2), Err(Damage::Version(2)));
    // Later than any clock says.
    assert_eq!(sound(|said| said[16..].copy_from_slice(&(LAST_SECOND + 1).to_le_bytes())), Err(Damage::Damaged));
    assert_eq!(sound(|said| said[16..].fill(0xff)), Err(Damage::Damaged));
}

#[test]
fn a_clock_that_starts_in_the_past_begins_where_the_cache_was_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let hand = ManualClock::new();
    let began = hand.clock().wall();
    assert_eq!(known_clock(dir.path(), hand.clock()).wall(), began, "nothing is known");
    write(&path(dir.path()), began + HOUR).unwrap();
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let known = known_clock(dir.path(), hand.clock());
    assert_eq!(seconds(known.wall()), seconds(began + HOUR));
    hand.set_wall(at(0));
    assert_eq!(seconds(known.wall()), seconds(began + HOUR));
    assert_eq!(seconds(known_clock(dir.path(), hand.clock()).wall()), seconds(began + HOUR), "from 1970, too");
    // It goes by what is later.
    hand.set_wall(began + 2 * HOUR);
    assert!(known_clock(dir.path(), hand.clock()).behind().is_zero());
    // Where nothing can be read, the clock is what it is.
    std::fs::write(path(dir.path()), b"tinaclok and more that is none of it").unwrap();
    hand.set_wall(at(5));
    assert_eq!(known_clock(dir.path(), hand.clock()).wall(), at(5));
    std::fs::remove_file(path(dir.path())).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path(dir.path())).unwrap();
    assert_eq!(known_clock(dir.path(), hand.clock()).wall(), at(5), "no link is followed");
    assert!(write(&path(dir.path()), at(7)).is_err());
    assert_eq!(known_clock(&dir.path().join("no directory"), hand.clock()).wall(), at(5));
}

/// Whatever stands in its place, the next writing puts it right.
#[test]
fn a_longer_file_is_damaged_until_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = path(dir.path());
    for bytes in [&[7; 100][..], &[&bytes_of(at(9))[..], b"x"].concat(), b"tinaclok", b""] {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), ErrorKind::InvalidData);
        write(&path, at(1_795_651_200)).unwrap();
        assert_eq!(read(&path).unwrap(), at(1_795_651_200));
    }
}

/// A clock without a battery said 2070 once, and the file says so.
#[test]
fn a_time_that_never_was_does_not_count_for_ever() {
    let (dir, hand) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let began = hand.clock().wall();
    write(&path(dir.path()), began + TOO_FAR + HOUR).unwrap();
    assert_eq!(
        known_clock(dir.path(), hand.clock()).wall(),
        began,
        "more than ten years ahead of a clock that may be right"
    );
    hand.set_wall(at(5));
    assert!(!known_clock(dir.path(), hand.clock()).behind().is_zero(), "one that is surely wrong");
    // Less than ten years: until the clock is set.
    write(&path(dir.path()), began + 10_000 * HOUR).unwrap();
    let known = known_clock(dir.path(), hand.clock());
    assert!(known.wall() > began + 9999 * HOUR);
    hand.set_wall(began);
    assert_eq!((known.wall(), known.behind()), (began, Duration::ZERO));
}

/// A server that starts with a wrong clock and ends soon leaves the file as it was.
#[tokio::test]
async fn a_process_that_ends_soon_writes_nothing_by_a_clock_that_is_behind() {
    let (dir, hand) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let path = path(dir.path());
    let bound = UNIX_EPOCH
        + Duration::from_secs(hand.clock().wall().duration_since(UNIX_EPOCH).unwrap().as_secs())
        + 1000 * HOUR;
    write(&path, bound).unwrap();
    let known = known_clock(dir.path(), hand.clock());
    let latest = Latest::new(dir.path(), &known);
    hand.advance(EVERY - Duration::from_secs(1));
    latest.end().await;
    assert_eq!(read(&path).unwrap(), bound);
    hand.advance(Duration::from_secs(1));
    latest.end().await;
    assert_eq!(read(&path).unwrap(), bound + EVERY, "what has gone by");
    // Once it is set, what it says is written, though it is less.
    let now = hand.clock().wall() + HOUR;
    hand.set_wall(now);
    latest.end().await;
    assert!(read(&path).unwrap() <= now);
}

/// Days of nobody asking for anything, and then some who do: the file is written rarely.
#[test]
fn it_is_written_no_oftener_than_it_must_be() {
    let (mut last, began) = (Last::default(), Instant::now());
    let day = 24 * 3600 / u32::try_from(EVERY.as_secs()).unwrap();
    let mut times = |from: u32, writes: fn(u32) -> u64| {
        (from..from + day).filter(|turn| last.is_due(began + EVERY * *turn, writes(*turn))).count()
    };
    assert_eq!(times(0, |_| 0), 24, "on a day without a request");
    assert_eq!(times(day, u64::from), 288, "on one with many");
    assert_eq!(times(2 * day, |_| 600), 24, "and on a quiet one behind it");
}

#[test]
fn what_was_stored_before_this_process_grows_no_younger_where_its_clock_is_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let hand = ManualClock::new();
    let began = hand.clock().wall();
    write(&path(dir.path()), began - 2 * HOUR).unwrap();
    let known = known_clock(dir.path(), hand.clock());
    hand.advance(HOUR);
    assert_eq!(known.put_back_since(began - 3 * HOUR), Duration::ZERO);
    hand.set_wall(began - HOUR / 2);
    assert_eq!(known.put_back_since(began - 3 * HOUR), HOUR + HOUR / 2);
    // The file may be some minutes old. What is stored from now on has times that nothing had before.
    assert_eq!(known.put_back_since(began - 2 * HOUR + EVERY / 2), HOUR + HOUR / 2);
    assert_eq!(known.put_back_since(known.wall()), Duration::ZERO);
    // A file of a time that never was says nothing of what comes once the clock was set.
    write(&path(dir.path()), began + 9000 * HOUR).unwrap();
    let hand = ManualClock::new();
    let known = known_clock(dir.path(), hand.clock());
    hand.set_wall(began + HOUR);
    assert_eq!(known.put_back_since(known.wall()), Duration::ZERO);
}
