//! Dates of the Gregorian calendar, in UTC, from and to seconds since 1970.
//!
//! The crate `jiff` was tried: its `strptime` takes `10/oct/2000` and any blanks, and its times end 26 hours before 9999 does.

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_SECONDS: u64 = 86_400;
/// 9999-12-31T23:59:59Z: later times are written as this one.
const LAST_SECOND: u64 = 253_402_300_799;

/// `10/Oct/2000:13:55:36 +0000`, the time as web servers log it.
pub fn format(seconds: u64) -> String {
    let seconds = seconds.min(LAST_SECOND);
    let (year, month, day) = date_of(seconds / DAY_SECONDS);
    let time = seconds % DAY_SECONDS;
    let month = MONTHS.get(month).unwrap_or(&"Jan");
    format!("{day:02}/{month}/{year:04}:{:02}:{:02}:{:02} +0000", time / 3600, time / 60 % 60, time % 60)
}

/// Reads what [`format`] writes, with any offset from UTC.
pub fn parse(text: &str) -> Option<u64> {
    let (time, offset) = text.split_once(' ')?;
    let mut parts = time.split(['/', ':']);
    let day: u64 = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|month| *month == name)?;
    let year: u64 = parts.next()?.parse().ok()?;
    let mut clock = || parts.next()?.parse::<u64>().ok();
    let (hour, minute, second) = (clock()?, clock()?, clock()?);
    let valid = (1970..=9999).contains(&year) && (1..=days_in(year, month)).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 60 || parts.next().is_some() {
        return None;
    }
    let local = day_of(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    local.checked_add_signed(-offset_seconds(offset)?)
}

/// `+0130` or `-0800`, in seconds east of UTC.
fn offset_seconds(text: &str) -> Option<i64> {
    let digits = text.get(1..).filter(|digits| digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit()))?;
    let hours: i64 = digits.get(..2)?.parse().ok()?;
    let minutes: i64 = digits.get(2..)?.parse().ok()?;
    let seconds = hours * 3600 + minutes * 60;
    match text.get(..1)? {
        "+" => Some(seconds),
        "-" => Some(-seconds),
        _ => None,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// `month` counts from 0.
fn days_in(year: u64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to the first day of `year`.
fn year_start(year: u64) -> u64 {
    let leaps = |before: u64| before / 4 - before / 100 + before / 400;
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969)
}

fn day_of(year: u64, month: usize, day: u64) -> u64 {
    year_start(year) + (0..month).map(|month| days_in(year, month)).sum::<u64>() + day - 1
}

/// Year, month from 0, day from 1.
fn date_of(days: u64) -> (u64, usize, u64) {
    let mut year = 1970 + days / 366;
    while year_start(year + 1) <= days {
        year += 1;
    }
    let mut left = days - year_start(year);
    let mut month = 0;
    while left >= days_in(year, month) {
        left -= days_in(year, month);
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (seconds, text) in [
            (0, "01/Jan/1970:00:00:00 +0000"),
            (951_782_400, "29/Feb/2000:00:00:00 +0000"),
            (971_186_136, "10/Oct/2000:13:55:36 +0000"),
            (4_102_444_799, "31/Dec/2099:23:59:59 +0000"),
            (LAST_SECOND, "31/Dec/9999:23:59:59 +0000"),
        ] {
            assert_eq!(format(seconds), text);
            assert_eq!(parse(text), Some(seconds));
        }
        assert_eq!(format(u64::MAX), "31/Dec/9999:23:59:59 +0000");
    }

    #[test]
    fn offsets_and_nonsense() {
        assert_eq!(parse("10/Oct/2000:13:55:36 -0700"), Some(971_186_136 + 7 * 3600));
        assert_eq!(parse("10/Oct/2000:13:55:36 +0130"), Some(971_186_136 - 5400));
        for bad in ["", "31/Feb/2000:00:00:00 +0000", "10/Oct/2000:25:00:00 +0000", "10/Oct/1969:00:00:00 +0000"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
