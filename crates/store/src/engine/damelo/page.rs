//! A page: what moves between a frame in memory and one on the disk as one piece.
//!
//! ```text
//!  0  [4]  magic "DmP1"     16  u64  life             40  u64  version
//!  4  u32  group            24  u64  0                48  u64  checksum of bytes 0 to 47 and of the slots
//!  8  u32  page             32  u32  data begins at   56  the slots: a u32 each, where a record begins, 0 if it was deleted
//! 12  u32  slots            36  u32  0                .. free; then records, the first one at the end
//! ```
//!
//! Slots grow from the front and records from the back, so all free bytes lie together. A page in memory is at any moment
//! what may be written: header and checksum are right after each change. A record keeps its slot for as long as it is
//! there, and no slot is used twice in one life of the page, so a place never means another record, however often records
//! are moved to close gaps.
//!
//! Section 4 applies deletes one by one, from back to front, which moves what lies before each. Here all of a page's
//! deletes are applied in one pass: each record that stays moves once at most, which copies no more than any order of
//! single deletes does, and nothing where all records leave.

use xxhash_rust::xxh3::Xxh3;

use super::layout::At;
use crate::layout::Stamp;
use crate::layout::record::{HEADER_BYTES as RECORD_HEADER_BYTES, record_bytes};
use crate::terms::{Digest, Kind, Place, Record};

const MAGIC: [u8; 4] = *b"DmP1";
/// Bytes before the slots.
pub const HEADER_BYTES: usize = 56;
const CHECKED_BYTES: usize = 48;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 4;

/// The longest record that fits an empty page.
pub fn room(frame_bytes: usize) -> usize {
    frame_bytes.saturating_sub(HEADER_BYTES + SLOT_BYTES)
}

/// Slots that a page of so many bytes may use up in one life.
pub fn most_slots(frame_bytes: u32) -> u32 {
    (frame_bytes / 128).max(2)
}

fn number(page: &[u8], at: usize) -> u32 {
    page.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn long_number(page: &[u8], at: usize) -> u64 {
    page.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(field) = page.get_mut(at..at + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}

/// How many slots a page has used.
pub fn slots(page: &[u8]) -> u32 {
    number(page, 12)
}

/// Bytes that are free, a slot for one record included.
pub fn free_bytes(page: &[u8]) -> usize {
    (number(page, 32) as usize).saturating_sub(HEADER_BYTES + slots(page) as usize * SLOT_BYTES)
}

/// Whether a record of so many bytes fits.
pub fn fits(page: &[u8], bytes: usize) -> bool {
    free_bytes(page) >= bytes + SLOT_BYTES && slots(page) < most_slots(page.len() as u32)
}

/// Where the record of a slot begins; `None` if there is none.
pub fn offset(page: &[u8], slot: u16) -> Option<usize> {
    let offset = number(page, HEADER_BYTES + usize::from(slot) * SLOT_BYTES) as usize;
    (u32::from(slot) < slots(page) && offset >= HEADER_BYTES && offset < page.len()).then_some(offset)
}

/// What the record of a slot is, and whose, as its header says; `None` if there is none.
pub fn whose(page: &[u8], slot: u16) -> Option<(Kind, Digest)> {
    let record = page.get(offset(page, slot)?..)?;
    let kind = Kind::from_byte(*record.get(4)?)?;
    Some((kind, Digest(*record.get(24..)?.first_chunk()?)))
}

/// The version of a page: it grows with every change.
pub fn version(page: &[u8]) -> u64 {
    long_number(page, 40)
}

fn sum(page: &[u8], stamp: Stamp) -> u64 {
    let slots = HEADER_BYTES..HEADER_BYTES.saturating_add(slots(page) as usize * SLOT_BYTES);
    let mut sum = Xxh3::with_seed(stamp.seed);
    sum.update(page.get(..CHECKED_BYTES).unwrap_or_default());
    sum.update(page.get(slots).unwrap_or_default());
    sum.digest()
}

fn seal(page: &mut [u8], stamp: Stamp) {
    let version = version(page).wrapping_add(1);
    put(page, 40, &version.to_le_bytes());
    let sum = sum(page, stamp);
    put(page, CHECKED_BYTES, &sum.to_le_bytes());
}

/// Make a page of a frame, without records.
pub fn begin(page: &mut [u8], stamp: Stamp, at: At, life: u64) {
    page.get_mut(..HEADER_BYTES).unwrap_or_default().fill(0);
    put(page, 0, &MAGIC);
    put(page, 4, &at.group.to_le_bytes());
    put(page, 8, &at.page.to_le_bytes());
    put(page, 16, &life.to_le_bytes());
    let end = page.len() as u32;
    put(page, 32, &end.to_le_bytes());
    seal(page, stamp);
}

/// What a frame turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// The page.
    It,
    /// Another page, or another life of it, or nothing.
    Another,
    /// Damaged bytes.
    Damaged,
}

/// Whether a frame holds this life of a page. Only header and slots are looked at; records have checksums of their own.
pub fn is(page: &[u8], stamp: Stamp, at: At, life: u64) -> Is {
    let fits = slots(page) <= most_slots(page.len() as u32)
        && (HEADER_BYTES + slots(page) as usize * SLOT_BYTES..=page.len()).contains(&(number(page, 32) as usize));
    if page.get(..4) != Some(&MAGIC) || !fits || long_number(page, CHECKED_BYTES) != sum(page, stamp) {
        return if page.iter().take(HEADER_BYTES).all(|byte| *byte == 0) { Is::Another } else { Is::Damaged };
    }
    let here = At { group: number(page, 4), page: number(page, 8) };
    if (here, long_number(page, 16)) == (at, life) { Is::It } else { Is::Another }
}

/// Append a record, which fits ([`fits`]), with the checksum of its payload. `place` says where a slot's record lies.
/// Returns the slot.
pub fn append(
    page: &mut [u8],
    stamp: Stamp,
    record: &Record<'_>,
    payload_sum: u64,
    place: impl FnOnce(u16) -> Place,
) -> Option<u16> {
    let bytes = record_bytes(record)?;
    if !fits(page, bytes) {
        return None;
    }
    let slot = u16::try_from(slots(page)).ok()?;
    let at = (number(page, 32) as usize).checked_sub(bytes)?;
    stamp.write(record, place(slot), (0, None), payload_sum, page.get_mut(at..at + bytes)?);
    put(page, HEADER_BYTES + usize::from(slot) * SLOT_BYTES, &(at as u32).to_le_bytes());
    put(page, 12, &(u32::from(slot) + 1).to_le_bytes());
    put(page, 32, &(at as u32).to_le_bytes());
    seal(page, stamp);
    Some(slot)
}

/// Bytes of the record that begins there, as its header says; `None` if it cannot be.
fn length(page: &[u8], at: usize) -> Option<usize> {
    let (name, head, body) = (number(page, at + 4) >> 16, number(page, at + 8), number(page, at + 12));
    let bytes = RECORD_HEADER_BYTES + name as usize + head as usize + body as usize;
    (at + bytes <= page.len()).then_some(bytes)
}

/// Delete the records of these slots and close the gaps. Returns how many bytes were copied.
pub fn delete(page: &mut [u8], stamp: Stamp, dead: &[u16]) -> usize {
    for slot in dead.iter().filter(|slot| u32::from(**slot) < slots(page)).collect::<Vec<_>>() {
        put(page, HEADER_BYTES + usize::from(*slot) * SLOT_BYTES, &[0; SLOT_BYTES]);
    }
    let mut staying: Vec<_> = (0..slots(page) as u16).filter_map(|slot| Some((offset(page, slot)?, slot))).collect();
    staying.sort_unstable_by(|a, b| b.cmp(a));
    let (mut end, mut copied) = (page.len(), 0);
    for (at, slot) in staying {
        // One whose length cannot be is damaged, and leaves as well.
        let to = length(page, at).and_then(|bytes| Some((end.checked_sub(bytes)?, bytes)));
        let slot_at = HEADER_BYTES + usize::from(slot) * SLOT_BYTES;
        let Some((to, bytes)) = to else {
            put(page, slot_at, &[0; SLOT_BYTES]);
            continue;
        };
        if to != at {
            page.copy_within(at..at + bytes, to);
            put(page, slot_at, &(to as u32).to_le_bytes());
            copied += bytes;
        }
        end = to;
    }
    put(page, 32, &(end as u32).to_le_bytes());
    seal(page, stamp);
    copied
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAMP: Stamp = Stamp { seed: 5 };
    const AT: At = At { group: 3, page: 9 };

    fn add(page: &mut [u8], body: &[u8]) -> Option<u16> {
        let record = Record { id: Digest([1; 16]), kind: Kind::Whole, name: b"n", head: b"h", body, related_bytes: 0 };
        append(page, STAMP, &record, STAMP.payload_sum(&record), |slot| Place(u64::from(slot) + 100))
    }

    fn body(page: &[u8], slot: u16) -> Option<Vec<u8>> {
        let at = offset(page, slot)?;
        let header = STAMP.header(&page[at..], Place(u64::from(slot) + 100))?;
        let payload = &page[at + RECORD_HEADER_BYTES..at + header.record_bytes()];
        STAMP.verifies(&header, payload).then(|| payload[2..].to_vec())
    }

    #[test]
    fn a_page_takes_what_fits_and_says_whose_it_is() {
        let mut page = vec![7; 16 << 10];
        begin(&mut page, STAMP, AT, 4);
        assert_eq!(room(page.len()) + SLOT_BYTES, free_bytes(&page));
        let whole = vec![1; room(page.len()) - RECORD_HEADER_BYTES - 2];
        assert_eq!(add(&mut page, &whole), Some(0));
        assert_eq!((free_bytes(&page), add(&mut page, b"")), (0, None));
        assert_eq!(body(&page, 0), Some(whole));
        assert_eq!(is(&page, STAMP, AT, 4), Is::It);
        assert_eq!(is(&page, STAMP, AT, 5), Is::Another);
        assert_eq!(is(&page, Stamp { seed: 6 }, AT, 4), Is::Damaged, "another cache's");
        assert_eq!(is(&vec![0; 16 << 10], STAMP, AT, 4), Is::Another, "nothing yet");
        for bit in 0..(HEADER_BYTES + SLOT_BYTES) * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(is(&page, STAMP, AT, 4), Is::It, "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// A change of these bytes is another version, and keeps the file of this one.
    #[test]
    fn a_page_is_that_of_the_golden_file() {
        let mut page = vec![0; 16 << 10];
        begin(&mut page, STAMP, AT, 4);
        (0..3).for_each(|n| assert_eq!(add(&mut page, &[n; 5]), Some(n.into())));
        delete(&mut page, STAMP, &[1]);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let found = format!("{}\n{}\n", hex(&page[..72]), hex(&page[(16 << 10) - 130..]));
        assert_eq!(found, include_str!("../../../tests/golden/damelo-page-v1.txt"));
    }

    #[test]
    fn slots_are_used_up() {
        let mut page = vec![0; 16 << 10];
        begin(&mut page, STAMP, AT, 1);
        for slot in 0..128 {
            assert_eq!(add(&mut page, b"x"), Some(slot));
            delete(&mut page, STAMP, &[slot]);
        }
        assert_eq!(add(&mut page, b"x"), None);
        assert_eq!(free_bytes(&page), room(page.len()) + SLOT_BYTES - 128 * SLOT_BYTES);
    }

    /// Section 4: where every object of a page is deleted, from front to back every one that is left is moved each time;
    /// from back to front nothing is copied. One pass copies nothing either.
    #[test]
    fn nothing_is_copied_where_all_leave() {
        let mut page = vec![0; 16 << 10];
        begin(&mut page, STAMP, AT, 1);
        let all: Vec<_> = (0..10).map(|_| add(&mut page, &[1; 1000]).unwrap()).collect();
        let mut one_by_one = page.clone();
        assert_eq!(delete(&mut page, STAMP, &all), 0);
        // The first one written lies at the back here.
        let copied: usize = all.iter().map(|slot| delete(&mut one_by_one, STAMP, &[*slot])).sum();
        assert_eq!(copied, (0..10).sum::<usize>() * (RECORD_HEADER_BYTES + 2 + 1000));
    }

    proptest! {
        /// A page holds what a list holds; deletes in one pass copy no more than one by one in the best order.
        #[test]
        fn it_matches_a_list(steps in proptest::collection::vec((0..4_u8, 0..2000_usize), 0..60)) {
            let mut page = vec![0; 16 << 10];
            begin(&mut page, STAMP, AT, 1);
            let mut model: Vec<(u16, Vec<u8>)> = Vec::new();
            for (n, (what, size)) in steps.into_iter().enumerate() {
                if what > 0 {
                    let bytes = vec![n as u8; size];
                    let fitted = fits(&page, RECORD_HEADER_BYTES + 2 + size);
                    let slot = add(&mut page, &bytes);
                    prop_assert_eq!(slot.is_some(), fitted);
                    model.extend(slot.map(|slot| (slot, bytes)));
                } else {
                    let leaves = |slot: &u16| (*slot as usize + size).is_multiple_of(3);
                    let dead: Vec<_> = model.iter().map(|(slot, _)| *slot).filter(leaves).collect();
                    let mut other = page.clone();
                    let mut copied = 0;
                    for slot in dead.iter().rev() {
                        copied += delete(&mut other, STAMP, &[*slot]);
                    }
                    prop_assert!(delete(&mut page, STAMP, &dead) <= copied);
                    model.retain(|(slot, _)| !dead.contains(slot));
                }
                prop_assert_eq!(is(&page, STAMP, AT, 1), Is::It);
                for (slot, bytes) in &model {
                    prop_assert_eq!(body(&page, *slot), Some(bytes.clone()));
                }
            }
        }
    }
}
