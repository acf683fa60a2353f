use http::HeaderName;

use super::*;

fn facts() -> Facts {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::new(seconds, 7);
    Facts {
        received: at(1_700_000_000),
        fresh_until: at(1_700_000_060),
        age_seconds: 5,
        stale_while_revalidate_seconds: 6,
        stale_if_error_seconds: 7,
        may_be_stale: true,
        family: at(1_600_000_000),
        variant: Some([9; 16]),
        fetched_from: Some("192.0.2.1".parse().unwrap()),
        stamp: Stamp(0x0102_0304_0506_0708),
    }
}

fn tags() -> Tags {
    Tags::of(Bytes::from_static(&[0x33; 16]), true).unwrap()
}

fn header() -> ResponseHead {
    let headers = Fields::of_lines(&Bytes::from_static(b"X-A: 1\r\nx-a: 2\r\nContent-Length: 3\r\n")).unwrap();
    ResponseHead { headers, ..ResponseHead::new(StatusCode::NOT_FOUND) }
}

/// The bytes of a head may change only with its version: what is on disks must be read for what it is.
#[test]
fn the_format_is_what_it_was() {
    let list = [&[0x11; 16][..], &0u64.to_le_bytes(), &2u64.to_le_bytes(), &[0x22; 16]].concat();
    let list_bytes = list.clone();
    let head = StoredHead::encode_pieces(Kind::Pieces, &facts(), b"4:http,", &list, &tags(), &header()).unwrap();
    let golden = include_bytes!("../../tests/golden/head-v6.bin");
    assert!(head == golden[..], "{}", head.escape_ascii());
    // Read still: nothing was encoded then.
    let unencoded = Bytes::from_static(include_bytes!("../../tests/golden/head-v5.bin"));
    assert!(unencoded[0] == 5 && unencoded[1..] == head[1..]);
    let unencoded = StoredHead::decode(&unencoded).unwrap();
    assert_eq!((unencoded.facts, unencoded.tags()), (facts(), &tags()));
    let (list, length) = crate::stored::PieceList::of(&StoredHead::decode(&head).unwrap()).unwrap();
    assert_eq!((list.id, length, list.at(2).map(|piece| piece.id)), ([0x11; 16], 3, Some([0x22; 16])));
    // Read still, as asked for before any ban.
    let unstamped = Bytes::from_static(include_bytes!("../../tests/golden/head-v4.bin"));
    let unstamped = StoredHead::decode(&unstamped).unwrap();
    assert_eq!(unstamped.facts, Facts { stamp: Stamp::default(), ..facts() });
    assert!(unstamped.tags().is_empty() && unstamped.wire() == StoredHead::decode(&head).unwrap().wire());
    assert_eq!((unstamped.primary(), unstamped.pieces()), (&b"4:http,"[..], &Bytes::from(list_bytes)));
    // Its tags were not kept, but their fields were.
    let mut tagged = include_bytes!("../../tests/golden/head-v4.bin").to_vec();
    let at = tagged.windows(6).position(|bytes| bytes == b"X-A: 1").unwrap();
    tagged[at..at + 6].copy_from_slice(b"XKEY:1");
    assert!(StoredHead::decode(&tagged.into()).unwrap().tags().unlisted);
    let before = include_bytes!("../../tests/golden/head-v3.bin");
    assert!(is_old(before) && StoredHead::decode(&Bytes::from_static(before)).is_none());
}

#[test]
fn there_and_back() {
    let plain = Facts { family: SystemTime::UNIX_EPOCH, variant: None, fetched_from: None, ..facts() };
    let v6 = Facts { fetched_from: Some("2001:db8::1".parse().unwrap()), may_be_stale: false, ..plain };
    for (kind, facts) in [(Kind::Whole, facts()), (Kind::Whole, plain), (Kind::Whole, v6), (Kind::Family, plain)] {
        let bytes = StoredHead::encode(kind, &facts, b"name", &tags(), &header()).unwrap();
        let head = StoredHead::decode(&bytes).unwrap();
        assert_eq!((head.kind, head.facts, head.tags()), (kind, facts, &tags()));
        assert!(head.belongs_to(b"name") && !head.belongs_to(b"nam"));
        assert_eq!(head.wire(), "HTTP/1.1 404 Not Found\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 3\r\n");
        assert_eq!(head.status(), 404);
        let back = head.header().unwrap();
        let mut wire = Vec::new();
        back.headers.write_to(&mut wire);
        assert_eq!(wire, b"X-A: 1\r\nx-a: 2\r\nContent-Length: 3\r\n");
        assert_eq!(head.fields(|line| line.is(&http::header::CONTENT_LENGTH)).unwrap().len(), 1);
    }
}

#[test]
fn pieces() {
    let header = header();
    let encode = |kind, pieces: &[u8]| StoredHead::encode_pieces(kind, &facts(), b"name", pieces, &tags(), &header);
    let bytes = encode(Kind::Pieces, &[7; 48]).unwrap();
    let head = StoredHead::decode(&bytes).unwrap();
    assert_eq!((head.kind, &head.pieces()[..], head.status().as_u16()), (Kind::Pieces, &[7; 48][..], 404));
    assert_eq!(head.again(&facts(), &tags(), &header), Some(bytes));
    // Only what says something of pieces has any.
    for (kind, pieces, read) in [
        (Kind::Whole, 17, true),
        (Kind::Form, 0, false),
        (Kind::Form, 17, true),
        (Kind::Family, 1, false),
        (Kind::Pieces, 0, false),
        (Kind::Piece, 0, false),
        (Kind::Piece, 24, true),
    ] {
        assert_eq!(StoredHead::decode(&encode(kind, &vec![0; pieces]).unwrap()).is_some(), read, "{kind:?}");
    }
    assert!(encode(Kind::Pieces, &vec![0; MAX_WIRE_BYTES]).is_none());
    // Earlier versions knew no forms.
    for (kind, version, read) in
        [(Kind::Whole, 6, true), (Kind::Whole, 5, false), (Kind::Form, 6, true), (Kind::Form, 5, false)]
    {
        let mut bytes = encode(kind, &[1; 17]).unwrap().to_vec();
        bytes[0] = version;
        assert_eq!(StoredHead::decode(&bytes.into()).is_some(), read, "{kind:?} {version}");
    }
}

#[test]
fn what_is_no_head() {
    let whole = StoredHead::encode(Kind::Whole, &facts(), b"name", &tags(), &header()).unwrap();
    for length in 0..whole.len() {
        assert!(StoredHead::decode(&whole.slice(..length)).is_none(), "{length}");
    }
    assert!(StoredHead::decode(&[&whole[..], b"x"].concat().into()).is_none());
    for (place, value) in [(0, 1), (0, 3), (0, 4), (0, 7), (1, 2), (1, 4), (1, 5), (2, 16), (3, 1)] {
        let mut other = whole.to_vec();
        other[place] = value;
        assert_eq!(is_old(&other), place == 0 && value < 4);
        assert!(StoredHead::decode(&other.into()).is_none(), "{place} {value}");
    }
}

#[test]
fn too_large() {
    let mut large = header();
    large.headers.insert(HeaderName::from_static("x"), "v".repeat(MAX_WIRE_BYTES)).unwrap();
    assert!(StoredHead::encode(Kind::Whole, &facts(), b"name", &tags(), &large).is_none());
    assert!(
        StoredHead::encode(Kind::Whole, &facts(), &vec![b'n'; MAX_PRIMARY_BYTES + 1], &tags(), &header()).is_none()
    );
    for size in [4095, 4096, 4097, 65535, 65536, 65537] {
        let mut header = header();
        header.headers.insert(HeaderName::from_static("x"), "v".repeat(size)).unwrap();
        let bytes = StoredHead::encode(Kind::Whole, &facts(), b"name", &tags(), &header).unwrap();
        assert!(bytes.len() < tinaja_store::limits::MAX_HEAD_BYTES - MAX_PRIMARY_BYTES / 4);
        assert_eq!(StoredHead::decode(&bytes).unwrap().header().unwrap().headers["x"].len(), size);
    }
}

#[test]
fn states() {
    let facts = facts();
    for (seconds, nanos, ttl, age) in [(0, 7, 60, 5), (59, 8, 1, 64), (60, 7, 0, 65), (61, 7, -1, 66), (0, 0, 60, 5)] {
        let now = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000 + seconds, nanos);
        let state = facts.state(now);
        assert_eq!((state.ttl_seconds, state.age_seconds), (ttl, age), "{seconds}");
    }
}

/// An answer for one second was a hit for an hour where the clock was an hour behind after a restart.
#[test]
fn what_comes_from_the_future_is_stale() {
    let facts = facts();
    for (before, ttl, while_revalidated, may_be_stale) in [
        (4, 60, facts.stale_while_revalidate_seconds, facts.may_be_stale),
        (6, -1, 0, false),
        (3600, -1, 0, false),
        (1_600_000_000, -1, 0, false),
    ] {
        let state = facts.state(facts.received - Duration::from_secs(before));
        let found = (state.ttl_seconds, state.stale_while_revalidate_seconds, state.may_be_stale);
        assert_eq!(found, (ttl, u64::from(while_revalidated), may_be_stale), "{before} s before");
    }
}

/// What was asked for before a node may have missed something is validated, though it came afterwards.
#[test]
fn what_was_asked_for_before_a_gap_is_validated_whenever_it_came() {
    let second = Duration::from_secs(1);
    let facts = Facts { may_be_stale: true, stale_while_revalidate_seconds: 60, ..facts() };
    let (asked, gap) = (facts.received - 2 * second, facts.received - second);
    let late = facts.asked_at(asked, Some(gap));
    let state = late.state(late.received);
    assert!(state.ttl_seconds <= 0 && !state.may_be_stale && state.stale_while_revalidate_seconds == 0, "{state:?}");
    assert_eq!(facts.asked_at(gap, Some(gap)), facts);
    assert_eq!(facts.asked_at(asked, None), facts);
}
