use http::HeaderName;

use super::*;
use crate::stored::facts::tests::facts;
use crate::stored::old_head::is_unread;

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
    let bytes = StoredHead::encode_pieces(Kind::Pieces, &facts(), b"4:http,", &list, &tags(), &header()).unwrap();
    let golden = include_bytes!("../../tests/golden/head-v7.bin");
    assert!(bytes == golden[..], "{}", bytes.escape_ascii());
    let head = StoredHead::decode(&bytes).unwrap();
    let (pieces, length) = crate::stored::PieceList::of(&head).unwrap();
    assert_eq!((pieces.id, length, pieces.at(2).map(|piece| piece.id)), ([0x11; 16], 3, Some([0x22; 16])));
    assert_eq!(StoredHead::stamp_of(&bytes), Some((Kind::Pieces, facts().stamp)));
}

/// What is in a cache stays a hit when a new release opens it.
#[test]
fn what_earlier_releases_stored_is_read() {
    let golden = |bytes: &'static [u8]| Bytes::from_static(bytes);
    let list = [&[0x11; 16][..], &0u64.to_le_bytes(), &2u64.to_le_bytes(), &[0x22; 16]].concat();
    let now = StoredHead::decode(&golden(include_bytes!("../../tests/golden/head-v7.bin"))).unwrap();
    let (v6, v5) = (include_bytes!("../../tests/golden/head-v6.bin"), include_bytes!("../../tests/golden/head-v5.bin"));
    // Nothing was encoded in the older one.
    assert!(v6[0] == 6 && v5[0] == 5 && v6[1..] == v5[1..]);
    for bytes in [golden(v6), golden(v5)] {
        let old = StoredHead::decode(&bytes).unwrap();
        assert_eq!((old.kind, old.facts, old.tags()), (Kind::Pieces, facts(), &tags()));
        assert_eq!((old.primary(), &old.pieces()[..], old.wire()), (&b"4:http,"[..], &list[..], now.wire()));
        assert_eq!(StoredHead::stamp_of(&bytes), Some((Kind::Pieces, facts().stamp)));
        for length in 0..bytes.len() {
            assert!(StoredHead::decode(&bytes.slice(..length)).is_none(), "{length}");
        }
    }
    for (kind, version, read) in
        [(Kind::Whole, 6, true), (Kind::Whole, 5, false), (Kind::Form, 6, true), (Kind::Form, 5, false)]
    {
        let mut bytes = v6.to_vec();
        (bytes[0], bytes[1]) = (version, kind as u8);
        assert_eq!(StoredHead::decode(&bytes.into()).is_some(), read, "{kind:?} {version}");
    }
    let changed = |golden: &[u8], at: usize, value: u8| {
        let mut bytes = golden.to_vec();
        bytes[at] = value;
        StoredHead::decode(&bytes.into())
    };
    // Numbers without their flag are there, and say nothing.
    let bare = changed(v6, 2, 0).unwrap();
    let facts_of_none = Facts { may_be_stale: false, variant: None, fetched_from: None, ..facts() };
    assert_eq!((bare.facts, bare.tags().unlisted), (facts_of_none, false));
    // An address of IPv6 was there as it is, and one of IPv4 behind twelve bytes that say so.
    let v6_address = changed(v6, 66, 0xfe).unwrap().facts.fetched_from;
    assert_eq!(v6_address, Some("::feff:c000:201".parse().unwrap()));
    let v4 = include_bytes!("../../tests/golden/head-v4.bin");
    for (golden, at, value) in [
        (&v6[..], 2, 16),
        (v6, 3, 1),
        (v6, 1, 1),
        (v6, 1, 5),
        (v4, 2, 15),
        (v4, 3, 1),
        (v4, 1, 1),
        (v4, 1, 0),
        (v4, 1, 4),
    ] {
        assert!(changed(golden, at, value).is_none(), "{} {at} {value}", golden[0]);
    }
    for golden in [&v6[..], v4] {
        assert!(StoredHead::decode(&[golden, b"x"].concat().into()).is_none());
        (0..golden.len()).for_each(|length| assert!(StoredHead::decode(&golden[..length].to_vec().into()).is_none()));
    }
    // Asked for before any ban.
    let v4 = golden(v4);
    let unstamped = StoredHead::decode(&v4).unwrap();
    assert_eq!(unstamped.facts, Facts { stamp: Stamp::default(), ..facts() });
    assert!(unstamped.tags().is_empty() && unstamped.wire() == now.wire());
    assert_eq!((unstamped.primary(), &unstamped.pieces()[..]), (&b"4:http,"[..], &list[..]));
    assert_eq!(StoredHead::stamp_of(&v4), Some((Kind::Pieces, Stamp::default())));
    // Its tags were not kept, but their fields were.
    let mut tagged = v4.to_vec();
    let at = tagged.windows(6).position(|bytes| bytes == b"X-A: 1").unwrap();
    tagged[at..at + 6].copy_from_slice(b"XKEY:1");
    assert!(StoredHead::decode(&tagged.into()).unwrap().tags().unlisted);
    let v3 = golden(include_bytes!("../../tests/golden/head-v3.bin"));
    assert!(is_unread(&v3) && StoredHead::decode(&v3).is_none() && StoredHead::stamp_of(&v3).is_none());
}

/// Each byte of a head is written to the disk with each object. Numbers that said nothing once took 56.
#[test]
fn a_number_that_says_nothing_takes_no_room() {
    let plain = Facts { may_be_stale: true, fetched_from: facts().fetched_from, ..Facts::bare(facts().received) };
    let header = ResponseHead::new(StatusCode::OK);
    let bytes_of = |facts: &Facts, tags: &Tags| {
        let bytes = StoredHead::encode(Kind::Whole, facts, b"", tags, &header).unwrap();
        let head = StoredHead::decode(&bytes).unwrap();
        assert_eq!((head.facts, head.tags()), (*facts, tags));
        bytes.len() - "HTTP/1.1 200 OK\r\n".len()
    };
    let none = Tags::default();
    assert_eq!(bytes_of(&plain, &none), 40);
    assert_eq!(bytes_of(&Facts { fetched_from: None, ..plain }, &none), 36);
    assert_eq!(bytes_of(&Facts { fetched_from: Some("2001:db8::1".parse().unwrap()), ..plain }, &none), 52);
    assert_eq!(bytes_of(&Facts { stale_if_error_seconds: 1, ..plain }, &none), 52);
    assert_eq!(bytes_of(&Facts { variant: Some([0; 16]), ..plain }, &none), 56);
    assert_eq!(bytes_of(&Facts { family: facts().family, ..plain }, &none), 48);
    assert_eq!(bytes_of(&plain, &tags()), 40 + 4 + 16);
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
}

#[test]
fn what_is_no_head() {
    let whole = StoredHead::encode(Kind::Whole, &facts(), b"name", &tags(), &header()).unwrap();
    for length in 0..whole.len() {
        assert!(StoredHead::decode(&whole.slice(..length)).is_none(), "{length}");
    }
    assert!(StoredHead::decode(&[&whole[..], b"x"].concat().into()).is_none());
    for (place, value) in [(0, 1), (0, 3), (0, 4), (0, 5), (0, 6), (0, 8), (1, 2), (1, 4), (1, 5), (3, 3)] {
        let mut other = whole.to_vec();
        other[place] = value;
        assert_eq!(is_unread(&other), place == 0 && value < 4);
        assert!(StoredHead::decode(&other.into()).is_none(), "{place} {value}");
    }
}

/// A box whose clock is before 1970 stores what it can read again.
#[test]
fn before_1970_is_1970() {
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let facts = Facts { family: before, ..Facts::bare(before) };
    let bytes = StoredHead::encode(Kind::Family, &facts, b"name", &Tags::default(), &header()).unwrap();
    assert_eq!(StoredHead::decode(&bytes).unwrap().facts, Facts::bare(SystemTime::UNIX_EPOCH));
}

/// Each head has one form: a number that says nothing is not there, and an address is of one kind.
#[test]
fn a_number_that_is_there_says_something() {
    let nothing = Facts { stamp: facts().stamp, ..Facts::bare(facts().received) };
    // With these flags, and these bytes behind the numbers that are always there.
    let read = |flags: u16, more: &[u8], extra: usize| {
        let bytes = StoredHead::encode(Kind::Whole, &nothing, b"name", &Tags::default(), &header()).unwrap();
        let mut bytes = [&bytes[..36], more, &bytes[36..40], &vec![0; extra], &bytes[40..]].concat();
        bytes[2..4].copy_from_slice(&flags.to_le_bytes());
        StoredHead::decode(&bytes.into()).map(|head| head.facts)
    };
    assert_eq!(read(0, &[], 0), Some(nothing));
    assert_eq!(
        (read(32, &[0; 12], 0), read(64, &[0; 8], 0), read(128, &[0; 4], 0), read(256, &[0; 4], 0)),
        Default::default()
    );
    assert!(read(32, &[&[0; 11][..], &[1]].concat(), 0).is_some() && read(64, &[1; 8], 0).is_some());
    assert!(read(128, &[2, 0, 0, 0], 2).is_some() && read(256, &[8, 0, 0, 0], 8).is_some());
    let [mapped, v6] = ["::ffff:192.0.2.1", "2001:db8::1"].map(|address| address.parse::<Ipv6Addr>().unwrap().octets());
    assert!(read(16, &mapped, 0).is_none() && read(16, &v6, 0).is_some());
    // Not both, whichever of them is there.
    assert!(
        read(4, &[192, 0, 2, 1], 0).is_some() && read(20, &[192, 0, 2, 1], 0).is_none() && read(20, &v6, 0).is_none()
    );
    assert!(read(512, &[], 0).is_none());
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
