use proptest::prelude::*;

use super::*;

/// 14 November 2023.
const NOW: u64 = 1_700_000_000;

fn read(text: &str) -> Option<i64> {
    parse(text, UNIX_EPOCH + Duration::from_secs(NOW)).map(seconds_of)
}

#[test]
fn three_forms() {
    const EXAMPLE: i64 = 784_111_777;
    for (text, expected) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE),
        ("Sunday, 06-Nov-94 08:49:37 GMT", EXAMPLE),
        ("Sun Nov  6 08:49:37 1994", EXAMPLE),
        ("sUN, 06 nOV 1994 08:49:37 gmt", EXAMPLE),
        ("sunday, 06-nov-94 08:49:37 gmt", EXAMPLE),
        ("Wed Nov 16 08:49:37 1994", EXAMPLE + 10 * DAY_SECONDS),
        // The name of the day says nothing that the date does not.
        ("Mon, 06 Nov 1994 08:49:37 GMT", EXAMPLE),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
        ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_799),
        ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
        ("Tue, 19 Jan 2038 03:14:08 GMT", 1 << 31),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
    ] {
        assert_eq!(read(text), Some(expected), "{text}");
    }
}

#[test]
fn two_digit_years() {
    for (text, year) in [
        ("Sunday, 06-Nov-94 08:49:37 GMT", 1994),
        ("Sunday, 06-Nov-24 08:49:37 GMT", 2024),
        ("Sunday, 06-Nov-00 08:49:37 GMT", 2000),
        ("Sunday, 13-Nov-73 08:49:37 GMT", 2073),
        // A month later than now, and 50 years ahead: in the past.
        ("Sunday, 15-Dec-73 08:49:37 GMT", 1973),
        ("Saturday, 06-Nov-99 08:49:37 GMT", 1999),
    ] {
        assert_eq!(read(text).map(year_of), Some(year), "{text}");
    }
    // Seen from 1999, 01 is two years ahead.
    let in_1999 = UNIX_EPOCH + Duration::from_secs(930_000_000);
    assert_eq!(parse("Monday, 01-Jan-01 00:00:00 GMT", in_1999).map(|date| year_of(seconds_of(date))), Some(2001));
}

#[test]
fn no_dates() {
    for text in [
        "",
        "0",
        "-1",
        "now",
        "784111777",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37 AEST",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "Sun, 06  Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08.49.37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Thu, 29 Feb 1900 00:00:00 GMT",
        "Sun, +6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nix 1994 08:49:37 GMT",
        "Xyz, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 EST",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Növ 1994 08:49:37 GMT",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn lines_of_a_field() {
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    let (early, late) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 07 Nov 1994 08:49:37 GMT");
    let (early_at, late_at) = (parse(early, now), parse(late, now));
    for (lines, one, first, expiry) in [
        (vec![], None, None, None),
        (vec![late], late_at, late_at, late_at),
        (vec![late, early], None, early_at, Some(UNIX_EPOCH)),
        (vec![late, "x"], None, late_at, Some(UNIX_EPOCH)),
        (vec!["0"], None, None, Some(UNIX_EPOCH)),
        (vec!["-1"], None, None, Some(UNIX_EPOCH)),
        (vec![""], None, None, Some(UNIX_EPOCH)),
    ] {
        let headers: HeaderMap = lines.iter().map(|line| (EXPIRES, line.parse().unwrap())).collect();
        assert_eq!(single(&headers, &EXPIRES, now), one, "{lines:?}");
        assert_eq!(earliest(&headers, &EXPIRES, now), first, "{lines:?}");
        assert_eq!(expires(&headers, now), expiry, "{lines:?}");
    }
}

#[test]
fn dates_beyond_what_can_be_written() {
    let latest = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    assert_eq!(format(latest + Duration::from_millis(999)), "Fri, 31 Dec 9999 23:59:59 GMT");
    let long_ago = UNIX_EPOCH - Duration::from_secs(9_000_000_000);
    assert_eq!(format(long_ago), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(format(UNIX_EPOCH + Duration::from_secs(1 << 55)), "Fri, 31 Dec 9999 23:59:59 GMT");
}

proptest! {
    #[test]
    fn what_is_written_is_read(seconds in 0u64..253_402_300_800) {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        prop_assert_eq!(parse(&format(time), time), Some(time));
    }

    #[test]
    fn two_digits_within_half_a_century(seconds in 3_000_000_000u64..60_000_000_000, off in -1_500_000_000i64..1_500_000_000) {
        let time = UNIX_EPOCH + Duration::from_secs(seconds.saturating_add_signed(off));
        let text = format(time);
        let (day, month, year, clock) = (&text[5..7], &text[8..11], &text[14..16], &text[17..]);
        let old = format!("Friday, {day}-{month}-{year} {clock}");
        prop_assert_eq!(parse(&old, UNIX_EPOCH + Duration::from_secs(seconds)), Some(time));
    }
}
