//! Dates: what can be read is written and read again as the same time, and as another library reads it.
#![no_main]

use std::time::{Duration, SystemTime};

use tinaja_http::dates::{format, parse};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((now, text)) = data.split_first_chunk::<5>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let [a, b, c, d, e] = *now;
    // Up to the year 6300: two-digit years near it can still be written with four.
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from_be_bytes([0, 0, 0, a & 0x1f, b, c, d, e]));
    let _ = format(now);
    let time = parse(text, now);
    if let Some(time) = time.filter(|time| *time >= SystemTime::UNIX_EPOCH) {
        assert_eq!(parse(&format(time), now), Some(time), "{text}");
        assert_eq!(format(time), httpdate::fmt_http_date(time));
    }
    // Two-digit years and leap seconds are read differently on purpose; values of fields come without blanks around.
    let plain = !text.contains('-') && !text.contains(":60") && text.trim() == text;
    if let Ok(other) = httpdate::parse_http_date(text)
        && plain
    {
        assert_eq!(time, Some(other), "{text}");
    }
});
