//! How old a response is (RFC 9111 4.2.3 and 5.1). Ages are whole seconds, at most [`MAX_SECONDS`].

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{AGE, DATE};

use crate::dates;
use crate::limits::MAX_SECONDS;
use crate::words::text;

/// The age of a response on arrival (RFC 9111 4.2.3): the time since its Date, or its Age and the time that asking
/// took, whichever is more. `asked` is when the request was sent, `answered` when the response's head came.
pub fn initial_age(response: &HeaderMap, asked: SystemTime, answered: SystemTime) -> u64 {
    let apparent = dates::earliest(response, &DATE, answered)
        .and_then(|date| answered.duration_since(date).ok())
        .map_or(0, |since| since.as_secs());
    let delay = answered.duration_since(asked).unwrap_or_default();
    age_field(response).saturating_add(delay.as_secs()).max(apparent).min(MAX_SECONDS)
}

/// The Age field in seconds: the first member if it is a whole number (RFC 9111 5.1), 0 otherwise. What is too large
/// is [`MAX_SECONDS`].
pub fn age_field(response: &HeaderMap) -> u64 {
    let Some(value) = response.get(AGE) else { return 0 };
    let first = text(value).split(',').next().unwrap_or_default().trim();
    if first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    first.parse().unwrap_or(MAX_SECONDS).min(MAX_SECONDS)
}

/// The age to send with a stored response (RFC 9111 4.2.3): its age on arrival and the time it has been here.
pub fn current_age(age_on_arrival: u64, stored_for: Duration) -> u64 {
    age_on_arrival.saturating_add(stored_for.as_secs()).min(MAX_SECONDS)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn at(offset: i64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.saturating_add_signed(offset))
    }

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn fields() {
        for (lines, expected) in [
            (vec![], 0),
            (vec!["7"], 7),
            (vec!["007"], 7),
            (vec![" 7 "], 7),
            (vec!["7, 9"], 7),
            (vec!["7", "9"], 7),
            (vec!["x, 9"], 0),
            (vec!["", "9"], 0),
            (vec!["-7"], 0),
            (vec!["+7"], 0),
            (vec!["7.5"], 0),
            (vec!["\"7\""], 0),
            (vec!["7 8"], 0),
            (vec!["2147483648"], MAX_SECONDS),
            (vec!["99999999999999999999999"], MAX_SECONDS),
        ] {
            let lines: Vec<_> = lines.into_iter().map(|line| ("age", line)).collect();
            assert_eq!(age_field(&headers(&lines)), expected, "{lines:?}");
        }
    }

    #[test]
    fn on_arrival() {
        let date = |offset| dates::format(at(offset));
        let (minute_ago, ahead) = (date(-60), date(60));
        for (fields, asked, expected) in [
            (vec![], 0, 0),
            (vec![], -3, 3),
            (vec![("age", "5")], 0, 5),
            (vec![("age", "5")], -3, 8),
            (vec![("age", "5"), ("date", minute_ago.as_str())], -3, 60),
            (vec![("age", "58"), ("date", minute_ago.as_str())], -3, 61),
            (vec![("date", ahead.as_str())], 0, 0),
            (vec![("date", ahead.as_str()), ("date", minute_ago.as_str())], 0, 60),
            (vec![("date", "yesterday")], -2, 2),
            // A clock that was set back while the answer was on its way.
            (vec![("age", "5")], 3, 5),
            (vec![("age", "99999999999"), ("date", "Thu, 01 Jan 1970 00:00:00 GMT")], -3, MAX_SECONDS),
        ] {
            assert_eq!(initial_age(&headers(&fields), at(asked), at(0)), expected, "{fields:?} {asked}");
        }
        assert_eq!(initial_age(&headers(&[("age", "5"), ("date", &minute_ago)]), at(0), at(0)), 60);
    }

    #[test]
    fn here() {
        assert_eq!(current_age(5, Duration::from_millis(2900)), 7);
        assert_eq!(current_age(u64::MAX, Duration::from_secs(1)), MAX_SECONDS);
    }
}
