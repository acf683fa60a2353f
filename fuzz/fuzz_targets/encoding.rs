//! Accept-Encoding: what a client is sent is what a naive reader of the field lets it have, in whatever spelling; and tags of forms lead back to
//! the tags that they were made of.
#![no_main]

use http::header::{ACCEPT_ENCODING, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue};
use tinaja_http::accept::{folded, settled};
use tinaja_http::encoding::{Coding, Codings, sent_as, tags, wanted};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    let request = tinaja_fuzz::fields(data, &[ACCEPT_ENCODING]);
    accept(*which, &request);
    tag(data);
});

fn accept(which: u8, request: &HeaderMap) {
    // Some of them, in some order.
    let mut offered: Vec<Coding> = Coding::ALL.to_vec();
    offered.rotate_left(usize::from(which % 3));
    if which & 4 != 0 {
        offered.reverse();
    }
    offered.truncate(usize::from(which >> 3) % 4);
    let offered: Codings = offered.into_iter().collect();
    let taken = wanted(request, &offered);
    assert_eq!(taken, naive(request, &offered), "{request:?} of {offered:?}");
    // Said in the one spelling that origins get, or in two lines, it means the same.
    let lines = || request.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes);
    if let Some(one) = settled(lines()) {
        assert_eq!(wanted(&of(&one), &offered), taken, "{request:?} as {one}");
        assert_eq!(settled([one.as_bytes()].into_iter()), None, "{one} once more");
    }
    // What an origin is asked for of the codings that it has is what the client takes.
    let has: Vec<String> = offered.iter().map(|coding| coding.name().to_owned()).collect();
    if let Some(one) = folded(lines(), &has) {
        for coding in taken.iter() {
            assert!(one.split(", ").any(|name| name == coding.name()), "{coding:?} of {request:?} not in {one}");
        }
        assert_eq!(folded([one.as_bytes()].into_iter(), &has).as_deref(), Some(&*one), "{one} once more");
    }
}

fn of(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap())])
}

/// The codings that are taken as RFC 9110 12.5.3 has it, read member by member.
fn naive(request: &HeaderMap, offered: &Codings) -> Codings {
    let lines: Vec<_> = request.get_all(ACCEPT_ENCODING).iter().map(|line| line.as_bytes().to_ascii_lowercase()).collect();
    if lines.is_empty() {
        return Codings::NONE;
    }
    let Ok(text) = String::from_utf8(lines.join(&b","[..])) else { return Codings::NONE };
    let mut weights: Vec<(String, u32)> = Vec::new();
    let mut count = 0;
    for member in text.split(',') {
        let member = member.trim_matches([' ', '\t']);
        if member.is_empty() {
            continue;
        }
        count += 1;
        let Some((name, weight)) = read(member) else { return Codings::NONE };
        if weights.iter().any(|(other, before)| *other == name && *before != weight) {
            return Codings::NONE;
        }
        weights.push((name, weight));
    }
    if count > tinaja_http::limits::MAX_NORMALISED_MEMBERS {
        return Codings::NONE;
    }
    let weight = |name: &str| weights.iter().find(|(other, _)| other == name).map(|(_, weight)| *weight);
    let identity = weight("identity").unwrap_or(0);
    let liked = |coding: Coding| weight(coding.name()).or_else(|| weight("*")).unwrap_or(0);
    let mut taken: Vec<Coding> = offered.iter().filter(|one| liked(*one) > 0 && liked(*one) >= identity).collect();
    taken.sort_by_key(|coding| std::cmp::Reverse(liked(*coding)));
    taken.into_iter().collect()
}

/// One member: its name, and its weight in thousandths; nothing for one that is malformed.
fn read(member: &str) -> Option<(String, u32)> {
    let (name, weight) = match member.split_once(';') {
        None => (member, 1000),
        Some((name, parameter)) => {
            let digits = parameter.trim_start_matches([' ', '\t']).strip_prefix("q=")?;
            let plain = digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let shape = digits.starts_with(['0', '1']) && (digits.len() == 1 || digits[1..].starts_with('.'));
            let points = digits.matches('.').count();
            let weight = digits.parse::<f64>().ok().filter(|weight| plain && shape && points <= 1 && *weight <= 1.0)?;
            (name.trim_end_matches([' ', '\t']), (weight * 1000.0).round() as u32)
        }
    };
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let name = match name {
        "x-gzip" => "gzip",
        "x-compress" => "compress",
        other => other,
    };
    (!name.is_empty() && name.bytes().all(token)).then(|| (name.to_owned(), weight))
}

/// Whatever an origin's tag is: each form has another, weak one, from which the origin's comes back; and a head that is sent names it once.
fn tag(data: &[u8]) {
    let opaque: Vec<u8> = data.iter().copied().filter(|byte| *byte > b' ' && *byte != b'"' && *byte < 0x7f).take(200).collect();
    let own = [b"\"", &opaque[..], b"\""].concat();
    let weak = [b"W/", &own[..]].concat();
    let mut all = vec![own.clone()];
    for coding in Coding::ALL {
        let form = tags::form_tag(&own, coding).unwrap();
        assert_eq!(tags::form_tag(&weak, coding).as_ref(), Some(&form));
        assert!(form.starts_with(b"W/") && !all.contains(&form), "{}", form.escape_ascii());
        assert_eq!(tags::origin_tag(&form).as_ref(), Some(&weak));
        all.push(form.clone());
        let asked = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_bytes(&form).unwrap())]);
        assert_eq!(tags::for_origin(&asked).as_ref(), Some(&weak));
        let head = [b"HTTP/1.1 200 OK\r\nETag: ", &own[..], b"\r\nContent-Length: 9\r\n"].concat();
        let sent = String::from_utf8(sent_as(&head, Some(coding))).unwrap();
        let lines: Vec<&str> = sent.split("\r\n").collect();
        let values = |name: &str| {
            let of = |line: &&str| Some(line.split_once(": ").filter(|(other, _)| other.eq_ignore_ascii_case(name))?.1.to_owned());
            lines.iter().filter_map(of).collect::<Vec<_>>()
        };
        assert_eq!(values(ETAG.as_str()), [String::from_utf8(form).unwrap()]);
        assert_eq!((values("content-encoding"), values("content-length")), (vec![coding.name().to_owned()], vec![]));
        assert_eq!(values(VARY.as_str()), ["Accept-Encoding"]);
    }
}
