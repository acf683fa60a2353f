//! Lines as other programs write them, and records that go out and come back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use proptest::prelude::*;
use tinaja_logs::{CacheResult, Format, Record, combined, common, json, squid};

fn example() -> Record {
    Record {
        time_ms: 1_286_536_309_450,
        duration_ms: 1,
        client: "192.168.0.68".into(),
        method: "GET".into(),
        url: "http://example.com/a.css".into(),
        status: 200,
        bytes: 5120,
        result: CacheResult::Hit,
        origin: Some("93.184.216.34".into()),
        content_type: Some("text/css".into()),
        ..Record::default()
    }
}

#[test]
fn squid_lines() {
    let mut line = String::new();
    squid::write(&example(), &mut line);
    assert_eq!(
        line,
        "1286536309.450      1 192.168.0.68 TCP_HIT/200 5120 GET http://example.com/a.css - \
         HIER_DIRECT/93.184.216.34 text/css\n"
    );
    assert_eq!(squid::parse(&line).unwrap(), example());

    // Where the client was going by itself, and an origin that was asked in place of it.
    for (origin, how) in
        [("93.184.216.34", "ORIGINAL_DST"), ("::ffff:93.184.216.34", "ORIGINAL_DST"), ("1.2.3.4", "HIER_DIRECT")]
    {
        line.clear();
        let chosen = Some("93.184.216.34:80".into());
        squid::write(&Record { chosen, origin: Some(origin.into()), ..example() }, &mut line);
        assert!(line.contains(&format!(" {how}/{origin} ")), "{line}");
        assert_eq!(squid::parse(&line).unwrap().origin.as_deref(), Some(origin));
    }

    let tunnel = "1286536309.4  60021 10.0.0.1 TCP_TUNNEL/200 39 CONNECT example.com:443 joe HIER_DIRECT/1.2.3.4 - x";
    let record = squid::parse(tunnel).unwrap();
    assert_eq!((record.time_ms, record.result, record.content_type), (1_286_536_309_400, CacheResult::Tunnel, None));

    let other = "1286536309.450 -3 10.0.0.1 TCP_SWAPFAIL_MISS/304 0 GET /x - HIER_NONE/- -";
    let record = squid::parse(other).unwrap();
    assert_eq!((record.duration_ms, record.origin), (0, None));
    assert_eq!(record.result, CacheResult::Other("TCP_SWAPFAIL_MISS".into()));
}

#[test]
fn squid_lines_that_are_none() {
    for (line, what) in [
        ("", "time"),
        ("x.450 1 c TCP_HIT/200 1 GET / - HIER_NONE/- -", "time"),
        ("1.4x 1 c TCP_HIT/200 1 GET / - HIER_NONE/- -", "time"),
        ("99999999999999999999.1 1 c TCP_HIT/200 1 GET / - HIER_NONE/- -", "time"),
        ("1.450 y c TCP_HIT/200 1 GET / - HIER_NONE/- -", "duration"),
        ("1.450 1 c TCP_HIT 1 GET / - HIER_NONE/- -", "result"),
        ("1.450 1 c TCP_HIT/2000000 1 GET / - HIER_NONE/- -", "status"),
        ("1.450 1 c TCP_HIT/200 -1 GET / - HIER_NONE/- -", "bytes"),
        ("1.450 1 c TCP_HIT/200 1 GET", "URL"),
        ("1.450 1 c TCP_HIT/200 1 GET / - HIER_NONE/-", "content type"),
    ] {
        assert_eq!(squid::parse(line).unwrap_err().what, what, "{line}");
    }
}

#[test]
fn hostile_fields_stay_on_their_line() {
    let record = Record {
        url: "http://x/\r\n1.0 1 c TCP_HIT/200 1 GET http://forged/ - - -\u{1b}]0;title\u{7}".into(),
        method: "G\tT".into(),
        id: Some("i\r\n".into()),
        user_agent: Some("a\" 200 1\r\nfake".into()),
        content_type: Some("text/html\u{0}".into()),
        ..example()
    };
    for format in Format::ALL {
        let mut line = String::new();
        format.write(&record, &mut line);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(line.trim_end().bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{line}");
    }
}

#[test]
fn combined_lines() {
    let line = "127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a.gif HTTP/1.0\" 200 2326 \
                \"http://www.example.com/start.html\" \"Mozilla/4.08 [en] (Win98; I \\\"x\\\")\"";
    let record = combined::parse(line).unwrap();
    assert_eq!((record.time_ms, record.status, record.bytes), (971_211_336_000, 200, 2326));
    assert_eq!((record.method.as_str(), record.url.as_str()), ("GET", "/a.gif"));
    assert_eq!(record.user_agent.as_deref(), Some("Mozilla/4.08 [en] (Win98; I \"x\")"));

    let common = "::1 - - [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.0\" 304 -";
    let record = combined::parse(common).unwrap();
    assert_eq!((record.bytes, record.referer, record.user_agent), (0, None, None));
    for bad in ["", "x", "x - - [10/Oct/2000:13:55:36 +0000] \"GET", "x - - [yesterday] \"GET / HTTP/1.0\" 200 1"] {
        assert!(combined::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn common_lines() {
    let mut line = String::new();
    common::write(&Record { referer: Some("r".into()), ..example() }, &mut line);
    let expected = "192.168.0.68 - - [08/Oct/2010:11:11:49 +0000] \"GET http://example.com/a.css HTTP/1.1\" 200 5120\n";
    assert_eq!(line, expected);
    let read = common::parse(&line).unwrap();
    assert_eq!((read.time_ms, read.url.as_str(), read.bytes), (1_286_536_309_000, "http://example.com/a.css", 5120));
    assert!(common::parse("x").unwrap_err().to_string().contains("line of the Common format: client is missing"));
}

#[test]
fn json_lines() {
    let mut line = String::new();
    let record = Record { user_agent: Some("\u{9b}31m \u{1f335}\"\n".into()), ..example() };
    json::write(&record, &mut line);
    assert_eq!(
        line,
        "{\"time_ms\":1286536309450,\"duration_ms\":1,\"client\":\"192.168.0.68\",\"method\":\"GET\",\
         \"url\":\"http://example.com/a.css\",\"status\":200,\"bytes\":5120,\"result\":\"TCP_HIT\",\
         \"origin\":\"93.184.216.34\",\"content_type\":\"text/css\",\
         \"user_agent\":\"\\u009b31m \\ud83c\\udf35\\\"\\n\"}\n"
    );
    assert_eq!(json::parse(&line).unwrap(), record);

    let short = json::parse(r#"{"time_ms":1,"method":"GET","url":"/","status":200,"more":[1]}"#).unwrap();
    assert_eq!((short.result, short.bytes, short.origin), (CacheResult::None, 0, None));
    for bad in ["", "{}", "[]", r#"{"time_ms":-1,"method":"GET","url":"/","status":200}"#, r#"{"time_ms":1"#] {
        assert!(json::parse(bad).unwrap_err().to_string().contains("JSON"), "{bad}");
    }
}

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let error = "Squid".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("\"Squid\"") && error.contains("squid, common, combined and json"), "{error}");
}

#[test]
fn every_result_has_its_name() {
    for name in ["TCP_MISS", "TCP_HIT", "TCP_CF_HIT", "TCP_IMS_HIT", "TCP_REFRESH_UNMODIFIED", "TCP_DENIED", "NONE"] {
        let result: CacheResult = name.parse().unwrap();
        assert!(!matches!(result, CacheResult::Other(_)), "{name}");
        assert_eq!(result.to_string(), name);
    }
}

fn records() -> impl Strategy<Value = Record> {
    let text = proptest::option::of("\\PC{1,20}|[\\x00-\\x7f]{1,20}");
    ((0u64..4_000_000_000_000, 0u64..1_000_000, 100u16..600, any::<u64>()), (text.clone(), text.clone(), text))
        .prop_map(|((time_ms, duration_ms, status, bytes), (url, referer, user_agent))| Record {
            time_ms,
            duration_ms,
            status,
            bytes,
            url: format!("http://h/{}", url.unwrap_or_default()),
            referer: referer.filter(|text| text != "-"),
            user_agent: user_agent.filter(|text| text != "-"),
            ..example()
        })
}

proptest! {
    #[test]
    fn squid_round_trip(record in records()) {
        let mut once = String::new();
        squid::write(&record, &mut once);
        let read = squid::parse(&once).unwrap();
        prop_assert_eq!((read.time_ms, read.duration_ms, read.status, read.bytes),
            (record.time_ms, record.duration_ms, record.status, record.bytes));
        let mut twice = String::new();
        squid::write(&read, &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn combined_round_trip(record in records()) {
        let mut once = String::new();
        combined::write(&record, &mut once);
        let read = combined::parse(once.trim_end()).unwrap();
        prop_assert_eq!(&read.referer, &record.referer);
        prop_assert_eq!(&read.user_agent, &record.user_agent);
        prop_assert_eq!(read.time_ms, record.time_ms / 1000 * 1000);
        let mut twice = String::new();
        combined::write(&read, &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn common_round_trip(record in records()) {
        let mut once = String::new();
        common::write(&record, &mut once);
        let read = common::parse(once.trim_end()).unwrap();
        prop_assert_eq!((read.status, read.bytes), (record.status, record.bytes));
        let mut twice = String::new();
        common::write(&read, &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn json_round_trip(record in records()) {
        let mut line = String::new();
        json::write(&record, &mut line);
        prop_assert!(line.trim_end().bytes().all(|byte| (b' '..0x7f).contains(&byte)));
        prop_assert_eq!(json::parse(&line).unwrap(), record);
    }

    #[test]
    fn no_line_is_too_strange(line in "\\PC{0,200}") {
        for format in Format::ALL {
            let _ = format.parse(&line);
        }
    }
}
