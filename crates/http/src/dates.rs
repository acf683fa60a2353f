//! Dates in HTTP (RFC 9110 5.6.7): read in all three forms, written in the one that is current.
//!
//! Times are whole seconds of UTC; local time zones play no part (RFC 9111 4.2). Letters are compared without case,
//! as RFC 9111 4.2 asks of caches; everything else stands to the letter, and a zone other than GMT makes a date bad.
//!
//! The crate `jiff` was tried: as RFC 2822 it takes zones like `AEST` for GMT, a comment, no seconds, and refuses the last
//! day of 9999; by `strptime` it takes `Sun,06 Nov 94 8:49:37 GMT` for the year 94, and a year of two digits never lies past
//! 2068. `httpdate`, which writes dates here, reads none in lower case, of a leap second, or with the wrong name of the day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::EXPIRES;
use http::{HeaderMap, HeaderName};

use crate::words::text;

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_SECONDS: i64 = 24 * 3600;

/// Reads a date in any of the three forms; `None` if it is none. `now` decides the century of two-digit years only.
pub fn parse(text: &str, now: SystemTime) -> Option<SystemTime> {
    if !text.is_ascii() {
        return None;
    }
    fixdate(text).or_else(|| rfc850(text, now)).or_else(|| asctime(text)).and_then(at)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn fixdate(text: &str) -> Option<i64> {
    let (day_name, rest) = text.split_once(", ")?;
    day_of_week(day_name, 3)?;
    let (day, month, year) = (rest.get(..2)?, rest.get(3..6)?, rest.get(7..11)?);
    let spaced = rest.get(2..3)? == " " && rest.get(6..7)? == " " && rest.get(11..12)? == " ";
    let days = days_before(number(year, 4)?, month_number(month)?, number(day, 2)?)?;
    let seconds = time_of_day(strip_gmt(rest.get(12..)?)?)?;
    spaced.then_some(days * DAY_SECONDS + seconds)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`. What seems more than 50 years ahead lies in the past.
fn rfc850(text: &str, now: SystemTime) -> Option<i64> {
    let (day_name, rest) = text.split_once(", ")?;
    DAYS.iter().find(|day| day.eq_ignore_ascii_case(day_name))?;
    let (day, month, year) = (rest.get(..2)?, rest.get(3..6)?, rest.get(7..9)?);
    let joined = rest.get(2..3)? == "-" && rest.get(6..7)? == "-" && rest.get(9..10)? == " ";
    let (day, month, two_digits) = (number(day, 2)?, month_number(month)?, number(year, 2)?);
    let seconds = time_of_day(strip_gmt(rest.get(10..)?)?)?;
    let now = seconds_of(now);
    let mut year = year_of(now) / 100 * 100 + 100 + two_digits;
    // The same moment 50 years earlier must not lie ahead.
    while plain_days_before(year - 50, month, day) * DAY_SECONDS + seconds > now {
        year -= 100;
    }
    let days = days_before(year, month, day)?;
    joined.then_some(days * DAY_SECONDS + seconds)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &str) -> Option<i64> {
    day_of_week(text.get(..3)?, 3)?;
    let (month, day, time, year) = (text.get(4..7)?, text.get(8..10)?, text.get(11..19)?, text.get(20..)?);
    let spaced = [3, 7, 10, 19].into_iter().all(|at| text.get(at..at + 1) == Some(" "));
    let day = day.strip_prefix(' ').map_or_else(|| number(day, 2), |day| number(day, 1))?;
    let days = days_before(number(year, 4)?, month_number(month)?, day)?;
    let seconds = time_of_day(time)?;
    spaced.then_some(days * DAY_SECONDS + seconds)
}

/// The date of a field that comes once, and can be read.
pub fn single(headers: &HeaderMap, name: &HeaderName, now: SystemTime) -> Option<SystemTime> {
    let mut values = headers.get_all(name).iter();
    let date = parse(text(values.next()?), now)?;
    values.next().is_none().then_some(date)
}

/// The earliest date among a field's lines, for fields such as Date where the earlier is the safer of two that
/// disagree: it makes a response older. `None` where no line can be read.
pub fn earliest(headers: &HeaderMap, name: &HeaderName, now: SystemTime) -> Option<SystemTime> {
    headers.get_all(name).iter().filter_map(|value| parse(text(value), now)).min()
}

/// When a response expires by its Expires field (RFC 9111 5.3): `None` without one. What cannot be read (`0`, `-1`,
/// anything else), and several lines that are not all the same, lie in the past.
pub fn expires(headers: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
    headers.contains_key(EXPIRES).then(|| single(headers, &EXPIRES, now).unwrap_or(UNIX_EPOCH))
}

/// Writes a date as all must (RFC 9110 5.6.7). Years past 9999 and before 1970 cannot be written; the nearest that
/// can stands for them.
pub fn format(time: SystemTime) -> String {
    // Past it httpdate panics.
    const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().min(LAST_SECOND);
    httpdate::fmt_http_date(UNIX_EPOCH + since)
}

fn at(seconds: i64) -> Option<SystemTime> {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
}

/// Seconds since 1970, rounded down; times that are centuries away count as 0.
fn seconds_of(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(0),
        Err(before) => {
            let until = before.duration();
            -i64::try_from(until.as_secs()).unwrap_or(0) - i64::from(until.subsec_nanos() > 0)
        }
    }
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

fn day_of_week(name: &str, letters: usize) -> Option<()> {
    DAYS.iter().find(|day| day.get(..letters).is_some_and(|day| day.eq_ignore_ascii_case(name))).map(|_| ())
}

fn month_number(name: &str) -> Option<i64> {
    let at = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))?;
    i64::try_from(at + 1).ok()
}

fn strip_gmt(text: &str) -> Option<&str> {
    let (time, zone) = text.split_at_checked(8)?;
    zone.eq_ignore_ascii_case(" GMT").then_some(time)
}

/// `08:49:37` in seconds. A leap second counts as the one before it: no later than what was written.
fn time_of_day(text: &str) -> Option<i64> {
    let colons = text.get(2..3)? == ":" && text.get(5..6)? == ":";
    let (hour, minute, second) = (number(text.get(..2)?, 2)?, number(text.get(3..5)?, 2)?, number(text.get(6..)?, 2)?);
    let valid = colons && hour < 24 && minute < 60 && second <= 60;
    valid.then_some(hour * 3600 + minute * 60 + second.min(59))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a day that exists.
fn days_before(year: i64, month: i64, day: i64) -> Option<i64> {
    (1..=days_in(year, month)).contains(&day).then(|| plain_days_before(year, month, day))
}

fn plain_days_before(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    const UNTIL_1970: i64 = 719_162;
    let months: i64 = (1..month).map(|month| days_in(year, month)).sum();
    before * 365 + leap_days - UNTIL_1970 + months + day - 1
}

fn year_of(seconds: i64) -> i64 {
    let days = seconds.div_euclid(DAY_SECONDS);
    // 400 years are 146,097 days; the guess is off by one at most.
    let guess = 1970 + (days * 400).div_euclid(146_097);
    match days {
        days if days < plain_days_before(guess, 1, 1) => guess - 1,
        days if days >= plain_days_before(guess + 1, 1, 1) => guess + 1,
        _ => guess,
    }
}

#[cfg(test)]
#[path = "dates_tests.rs"]
mod tests;
