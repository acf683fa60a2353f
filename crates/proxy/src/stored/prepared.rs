//! The fields of stored heads as HTTP/2 has them: a map, for `h2` takes nothing else.
//!
//! To make one of stored lines costs as much as to find the object. So the maps of heads that are sent again and again are kept,
//! each with the lines that it was made of: the same lines have the same fields, whatever they are the head of. A head is kept when it
//! comes for the second time, if meanwhile neither the one that is kept in its place came, nor another that would be: a crowd of heads that
//! come once pushes out none.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tinaja_http::http2::CONNECTION_FIELDS;
use tinaja_http::lines::lines;
use tinaja_store::Key;

use super::head::StoredHead;

/// So many heads are kept at most.
const SLOTS: usize = 512;
/// No longer ones, in bytes of their lines,
const MAX_LINES_BYTES: usize = 1024;
/// nor such with more fields. With these, all take 2.3 MiB at most.
const MAX_FIELDS: usize = 16;

/// Fields that most answers do not exceed, with those that are added to each: a map that grows is moved.
const FIELDS: usize = 14;

/// Maps of fields that are kept. Memory: 16 KiB, and 4.6 KiB for each of at most 512 heads.
#[derive(Debug)]
pub(crate) struct Prepared {
    slots: Box<[Mutex<Slot>]>,
}

#[derive(Debug, Default)]
struct Slot {
    /// The number of the head that came last, unless that was the one that is kept.
    last: Option<u64>,
    kept: Option<Box<Kept>>,
}

#[derive(Debug)]
struct Kept {
    lines: Bytes,
    fields: HeaderMap,
}

impl Prepared {
    /// None is kept yet.
    pub fn new() -> Prepared {
        Prepared { slots: (0..SLOTS).map(|_| Mutex::default()).collect() }
    }

    /// The fields of the object that stands there. They share nothing with its record: HPACK's table keeps fields as long as a connection
    /// lives, and would keep the whole record with each.
    ///
    /// `None` if what is stored cannot be read.
    pub fn fields(&self, head: &StoredHead, place: &Key) -> Option<HeaderMap> {
        let wire = head.wire();
        // What is sent in two forms has one place, and two heads.
        let number = place.digest().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) ^ wire.len() as u64;
        // Whoever finds another there makes its own.
        let mut slot = self.slots.get(number as usize % SLOTS).and_then(|slot| slot.try_lock());
        if let Some(Slot { last, kept: Some(kept) }) = slot.as_deref_mut()
            && kept.lines == *wire
        {
            *last = None;
            return Some(kept.fields.clone());
        }
        let lines = head.own_wire();
        let fields = fields_of(&lines)?;
        if let Some(slot) = &mut slot
            && slot.last.replace(number) == Some(number)
            && lines.len() <= MAX_LINES_BYTES
            && fields.len() <= MAX_FIELDS
        {
            slot.kept = Some(Box::new(Kept { lines, fields: fields.clone() }));
        }
        Some(fields)
    }
}

/// The fields of these lines, which share their bytes.
fn fields_of(all: &Bytes) -> Option<HeaderMap> {
    let mut fields = HeaderMap::with_capacity(FIELDS);
    for line in lines(all) {
        let name = HeaderName::from_bytes(line.name).ok()?;
        if CONNECTION_FIELDS.contains(&name) {
            continue;
        }
        let value = HeaderValue::from_maybe_shared(all.slice_ref(line.value)).ok()?;
        fields.try_append(name, value).ok()?;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use http::StatusCode;
    use tinaja_http::message::ResponseHead;

    use super::*;
    use crate::bans::Tags;
    use crate::stored::{Facts, Kind};

    /// A record with these values, and its head.
    fn record(values: &[&str]) -> (Bytes, StoredHead) {
        let mut header = ResponseHead::new(StatusCode::OK);
        for (name, value) in ["content-type", "x-one", "x-two"].into_iter().zip(values) {
            header.headers.append(HeaderName::from_static(name), *value).unwrap();
        }
        head_of(&header)
    }

    fn head_of(header: &ResponseHead) -> (Bytes, StoredHead) {
        let facts = Facts::bare(SystemTime::UNIX_EPOCH);
        let record = StoredHead::encode(Kind::Whole, &facts, b"https://a/", &Tags::default(), header).unwrap();
        let head = StoredHead::decode(&record).unwrap();
        (record, head)
    }

    fn kept(prepared: &Prepared) -> usize {
        prepared.slots.iter().filter(|slot| slot.lock().kept.is_some()).count()
    }

    /// HPACK's table keeps fields as long as a connection lives. Each once kept the whole record, body and all.
    #[test]
    fn fields_do_not_keep_the_record() {
        let (record, head) = record(&["a value"; 3]);
        let (prepared, place) = (Prepared::new(), Key::from_digest([7; 16]));
        let of_exchange = head.header().unwrap();
        for times in 0..4 {
            let lean = prepared.fields(&head, &place).unwrap();
            assert_eq!((lean.len(), of_exchange.headers.as_map()), (3, &lean), "{times}");
            for value in lean.values().chain(of_exchange.headers.as_map().values()) {
                assert!(!record.as_ptr_range().contains(&value.as_bytes().as_ptr()), "{value:?}");
            }
        }
        assert_eq!(kept(&prepared), 1);
    }

    /// An object that is replaced has other lines, and what was kept of the old ones is not sent.
    #[test]
    fn what_was_kept_is_sent_for_the_same_lines_alone() {
        let (prepared, place) = (Prepared::new(), Key::from_digest([7; 16]));
        let versions: Vec<_> = (0..3).map(|version| record(&[&format!("version {version}")]).1).collect();
        for turn in [0, 0, 0, 1, 0, 1, 1, 2, 2, 2, 0] {
            let fields = prepared.fields(&versions[turn], &place).unwrap();
            assert_eq!(fields["content-type"], format!("version {turn}"));
        }
        assert_eq!(kept(&prepared), 1);
    }

    /// Whoever finds another busy with what is kept makes the fields itself.
    #[test]
    fn nobody_waits_for_another() {
        let (prepared, place) = (Prepared::new(), Key::from_digest([7; 16]));
        let (_, head) = record(&["a value"; 3]);
        let fields = prepared.fields(&head, &place).unwrap();
        let all: Vec<_> = prepared.slots.iter().map(|slot| slot.lock()).collect();
        assert_eq!(prepared.fields(&head, &place), Some(fields));
        drop(all);
        assert_eq!(kept(&prepared), 0);
    }

    /// Fields of a connection are not for the next one, and of fields with one name each is sent.
    #[test]
    fn what_is_kept_is_what_was_made() {
        let (prepared, place) = (Prepared::new(), Key::from_digest([7; 16]));
        let with = |fields: &[(&'static str, &str)]| {
            let mut header = ResponseHead::new(StatusCode::OK);
            fields
                .iter()
                .for_each(|(name, value)| header.headers.append(HeaderName::from_static(name), *value).unwrap());
            head_of(&header).1
        };
        let head = with(&[("link", "<a>"), ("keep-alive", "timeout=5"), ("link", "<b>"), ("connection", "keep-alive")]);
        for times in 0..4 {
            let fields = prepared.fields(&head, &place).unwrap();
            assert!(fields.get_all("link").iter().eq(["<a>", "<b>"]) && fields.len() == 2, "{times}: {fields:?}");
        }
        assert_eq!(kept(&prepared), 1);
        let many = with(&[("x", "y"); MAX_FIELDS + 1]);
        let others = Prepared::new();
        (0..3).for_each(|_| assert_eq!(others.fields(&many, &place).unwrap().len(), MAX_FIELDS + 1));
        assert_eq!(kept(&others), 0);
    }

    /// A walk over many objects, each asked for once, pushes out nothing that is asked for again; and however many there are, few are kept.
    #[test]
    fn what_comes_once_is_not_kept() {
        let (_, head) = record(&["a value"]);
        let place = |number: u64| {
            let mut digest = [0; 16];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            Key::from_digest(digest)
        };
        let prepared = Prepared::new();
        let (_, hot) = record(&["hot"]);
        (0..2).for_each(|_| drop(prepared.fields(&hot, &place(3 + 10 * SLOTS as u64))));
        assert_eq!(kept(&prepared), 1);
        for number in 0..10 * SLOTS as u64 {
            prepared.fields(&head, &place(number)).unwrap();
        }
        assert_eq!(kept(&prepared), 1);
        let is_hot = || {
            prepared.slots.iter().any(|slot| slot.lock().kept.as_ref().is_some_and(|kept| kept.lines == *hot.wire()))
        };
        assert!(is_hot());
        for number in 0..10 * SLOTS as u64 {
            (0..2).for_each(|_| drop(prepared.fields(&head, &place(number))));
        }
        assert!(kept(&prepared) == SLOTS && !is_hot());
        let (_, long) = record(&[&"v".repeat(MAX_LINES_BYTES)]);
        let others = Prepared::new();
        (0..3).for_each(|_| assert_eq!(others.fields(&long, &place(0)).unwrap().len(), 1));
        assert_eq!(kept(&others), 0);
    }
}
