//! The heads that the proxy stores: whatever bytes a disk gives back, they are a head or are none; and what was stored comes
//! back as it went in.
#![no_main]
#![allow(dead_code)]

// The files are the proxy's own and private; they know nothing of the rest of it.
#[path = "../../crates/proxy/src/stored/facts.rs"]
mod facts;
#[path = "../../crates/proxy/src/stored/head.rs"]
mod head;
#[path = "../../crates/proxy/src/stored/old_head.rs"]
mod old_head;
#[path = "../../crates/proxy/src/stored/pieces.rs"]
mod pieces;
#[path = "../../crates/proxy/src/bans/stamp.rs"]
mod stamp;
#[path = "../../crates/proxy/src/bans/tags.rs"]
mod tags;

/// What the head's file takes from the proxy's room of this name.
mod bans {
    pub(crate) use crate::stamp::Stamp;
    pub(crate) use crate::tags::Tags;

    pub fn tag_fields() -> &'static [http::HeaderName] {
        &crate::tags::FIELDS
    }
}

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use facts::Facts;
use head::{Kind, StoredHead};
use http::header::CONTENT_LENGTH;
use http::{HeaderName, StatusCode};
use pieces::{Piece, PieceList};
use tinaja_http::message::{Fields, ResponseHead};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    if mode % 2 == 0 {
        read(&Bytes::copy_from_slice(data));
    } else {
        write(data);
    }
});

/// Any bytes: if they are a head, everything in it can be asked for, and it can be written again.
fn read(bytes: &Bytes) {
    let Some(head) = StoredHead::decode(bytes) else { return };
    assert!(head.belongs_to(head.primary()));
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let _ = (head.facts.state(now), head.status(), head.fields(|_| true), PieceList::of(&head));
    let Some(header) = head.header() else { return };
    // The fields of an earlier version's head are the tags of one that is written again.
    let tags = head.tags();
    assert_eq!(&tags.with(tags), tags);
    assert_eq!(tags.hashes().count() * 8, tags.bytes().len());
    let Some(again) = head.again(&head.facts, tags, &header) else { return };
    let again = StoredHead::decode(&again).unwrap();
    assert_eq!((again.kind, again.facts, again.primary(), again.pieces()), (head.kind, head.facts, head.primary(), head.pieces()));
    assert_eq!(again.tags(), tags);
    assert_eq!(lines(&again.header().unwrap().headers), lines(&header.headers));
}

/// The lines of some fields, with their spelling.
fn lines(fields: &Fields) -> Vec<u8> {
    let mut lines = Vec::new();
    fields.write_to(&mut lines);
    lines
}

/// A head made of the bytes comes back whole, and is none with a byte more or less.
fn write(data: &[u8]) {
    let Some((numbers, rest)) = data.split_at_checked(60) else { return };
    let u64_at = |at: usize| u64::from_le_bytes(numbers[at..at + 8].try_into().unwrap());
    let time = |at| SystemTime::UNIX_EPOCH + Duration::from_nanos(u64_at(at));
    let flags = numbers[24];
    let address = match flags & 3 {
        0 => None,
        1 => Some(IpAddr::from(<[u8; 4]>::try_from(&numbers[28..32]).unwrap())),
        _ => Some(IpAddr::from(<[u8; 16]>::try_from(&numbers[28..44]).unwrap()).to_canonical()),
    };
    let facts = Facts {
        received: time(0),
        fresh_until: time(8),
        age_seconds: u32::from(numbers[25]),
        stale_while_revalidate_seconds: u64_at(28) as u32,
        stale_if_error_seconds: u64_at(32) as u32,
        may_be_stale: flags & 4 != 0,
        family: time(16),
        variant: (flags & 8 != 0).then(|| numbers[44..60].try_into().unwrap()),
        fetched_from: address,
        stamp: bans::Stamp(u64_at(36)),
    };
    let (primary, fields) = rest.split_at(rest.len() / 3);
    let mut header = ResponseHead::new(StatusCode::from_u16(100 + u16::from(numbers[26]) % 500).unwrap());
    for line in fields.split(|byte| *byte == b'\n') {
        let (name, value) = line.split_at(line.len().min(1 + usize::from(numbers[27] % 8)));
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), http::HeaderValue::from_bytes(value.trim_ascii())) {
            header.headers.append(name, value).unwrap();
        }
    }
    let (kind, marks) = match flags >> 4 & 3 {
        // With an id and codings, as what may be sent encoded, or without; and such a form.
        0 if numbers[26] & 3 == 1 => (Kind::Whole, vec![flags; 18]),
        0 if numbers[26] & 3 == 2 => (Kind::Form, vec![flags; 17]),
        0 => (Kind::Whole, Vec::new()),
        1 => (Kind::Family, Vec::new()),
        2 => (Kind::Piece, Piece { first: u64_at(0), last: u64::MAX, id: [flags; 16] }.mark().to_vec()),
        _ => {
            let mut list = PieceList::new([flags; 16]);
            for (number, byte) in primary.iter().enumerate() {
                let (first, id) = (u64::from(*byte) * 7, [number as u8; 16]);
                list.add(Piece { first, last: first + u64::from(*byte), id });
            }
            header.headers.insert(CONTENT_LENGTH, 10_000).unwrap();
            (Kind::Pieces, list.bytes())
        }
    };
    let tags = bans::Tags::take(&mut header.headers, flags & 64 != 0);
    let Some(bytes) = StoredHead::encode_pieces(kind, &facts, primary, &marks, &tags, &header) else { return };
    let head = StoredHead::decode(&bytes).unwrap();
    assert_eq!(head.tags(), &tags);
    assert_eq!((head.kind, head.facts, head.primary(), &head.pieces()[..]), (kind, facts, primary, &marks[..]));
    assert_eq!(head.status(), header.status);
    let back = head.header().unwrap();
    assert_eq!((back.status, lines(&back.headers)), (header.status, lines(&header.headers)));
    if kind == Kind::Pieces {
        let (list, length) = PieceList::of(&head).unwrap();
        assert_eq!((list.bytes(), length), (marks, 10_000));
    }
    assert!(StoredHead::decode(&bytes.slice(..bytes.len() - 1)).is_none());
    assert!(StoredHead::decode(&[&bytes[..], b"x"].concat().into()).is_none());
}
