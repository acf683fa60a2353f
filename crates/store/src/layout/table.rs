//! Where the parts of a large object lie: the body of its head record.
//!
//! ```text
//! u64 bytes in extents, u32 extent bytes, then a u64 place for each extent; all but the last are full
//! then the beginning of the body, which is in no extent: in a Disk Table's bins only
//! ```
//!
//! Readers find the extents by their places in this table, and not by the index. So extents take no slots: a 2 GB object
//! would need 8,000 of them, and be lost with the first.
//!
//! Its readers stand above, in the room of extents. It stands here because engines read it too: a walk finds out what an
//! object still needs, and several disks put their numbers into its places.

use bytes::Bytes;

use crate::terms::Place;

/// Bytes before the first place.
const NUMBERS_BYTES: usize = 12;

/// One part of a large body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it lies.
    pub place: Place,
    /// Its bytes.
    pub bytes: u32,
}

/// All parts of a large body, in order: its beginning, as far as that lies with the head, and then the extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The beginning, which lies before the first extent.
    pub first: Bytes,
    /// Bytes in all extents.
    pub rest_bytes: u64,
    /// Bytes of each extent but the last.
    pub extent_bytes: u32,
    /// The extents, in order.
    pub extents: Vec<Extent>,
}

impl Table {
    /// The bytes of a table of so many extents, without the beginning of the body.
    pub const fn bytes_for(extents: usize) -> usize {
        NUMBERS_BYTES + extents.saturating_mul(8)
    }

    /// The length of the whole body.
    pub fn body_bytes(&self) -> u64 {
        self.first.len() as u64 + self.rest_bytes
    }

    /// The table as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::bytes_for(self.extents.len()) + self.first.len());
        bytes.extend_from_slice(&self.rest_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.extent_bytes.to_le_bytes());
        self.extents.iter().for_each(|extent| bytes.extend_from_slice(&extent.place.0.to_le_bytes()));
        bytes.extend_from_slice(&self.first);
        bytes
    }

    /// `None` if the numbers do not fit each other. Memory: 16 bytes for each 8 of the places; the beginning is not copied.
    pub fn decode(bytes: &Bytes) -> Option<Table> {
        let Numbers { rest_bytes, extent_bytes, places, first } = numbers(bytes)?;
        let left = |n: usize| rest_bytes - n as u64 * u64::from(extent_bytes);
        let extent = |(n, place): (usize, &[u8; 8])| Extent {
            place: Place(u64::from_le_bytes(*place)),
            bytes: left(n).min(u64::from(extent_bytes)) as u32,
        };
        let extents = places.iter().enumerate().map(extent).collect();
        Some(Table { first: bytes.slice(bytes.len() - first.len()..), rest_bytes, extent_bytes, extents })
    }

    /// The places alone; none where [`Table::decode`] finds no table.
    pub fn places(bytes: &[u8]) -> Vec<Place> {
        let places = numbers(bytes).map_or(&[][..], |numbers| numbers.places);
        places.iter().map(|place| Place(u64::from_le_bytes(*place))).collect()
    }
}

/// What an encoded table says.
struct Numbers<'a> {
    rest_bytes: u64,
    extent_bytes: u32,
    places: &'a [[u8; 8]],
    first: &'a [u8],
}

fn numbers(bytes: &[u8]) -> Option<Numbers<'_>> {
    let (rest_bytes, rest) = bytes.split_first_chunk()?;
    let (extent_bytes, rest) = rest.split_first_chunk()?;
    let (rest_bytes, extent_bytes) = (u64::from_le_bytes(*rest_bytes), u32::from_le_bytes(*extent_bytes));
    let count = rest_bytes.checked_div(u64::from(extent_bytes))?;
    let count = count + u64::from(!rest_bytes.is_multiple_of(u64::from(extent_bytes)));
    let (places, first) = rest.split_at_checked(usize::try_from(count).ok()?.checked_mul(8)?)?;
    Some(Numbers { rest_bytes, extent_bytes, places: places.as_chunks().0, first })
}

/// A table as it was encoded, with every place changed: the same bytes where `change` leaves the first place as it is.
pub fn with_places(bytes: Bytes, change: impl Fn(Place) -> Place) -> Bytes {
    let Some(mut table) = Table::decode(&bytes) else { return bytes };
    if table.extents.first().is_none_or(|extent| change(extent.place) == extent.place) {
        return bytes;
    }
    table.extents.iter_mut().for_each(|extent| extent.place = change(extent.place));
    table.encode().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_back_and_nonsense_does_not() {
        let extent = |n: u64, bytes| Extent { place: Place(n * 1000), bytes };
        let extents = vec![extent(1, 100), extent(7, 100), extent(2, 50)];
        for first in ["", "a body's beginning"] {
            let table = Table { first: first.into(), rest_bytes: 250, extent_bytes: 100, extents: extents.clone() };
            let bytes = Bytes::from(table.encode());
            assert_eq!(bytes.len(), Table::bytes_for(3) + first.len());
            assert_eq!(Table::decode(&bytes), Some(table.clone()));
            assert_eq!(table.body_bytes(), 250 + first.len() as u64);
            let moved = Table::decode(&with_places(bytes.clone(), |place| Place(place.0 + 5))).unwrap();
            let places = moved.extents.iter().map(|extent| extent.place);
            assert!(places.eq([Place(1005), Place(7005), Place(2005)]) && moved.first == first);
            assert_eq!(Table::places(&bytes), [Place(1000), Place(7000), Place(2000)]);
            for cut in 0..Table::bytes_for(3) {
                assert_eq!(Table::decode(&bytes.slice(..cut)), None);
                assert_eq!(with_places(bytes.slice(..cut), |place| Place(place.0 + 5)), bytes.slice(..cut));
                assert!(Table::places(&bytes[..cut]).is_empty());
            }
        }
        let nonsense = [u64::MAX.to_le_bytes().as_slice(), &1_u32.to_le_bytes(), &[0; 8]].concat();
        assert_eq!(Table::decode(&nonsense.into()), None);
        assert_eq!(Table::decode(&[0_u8; 12].to_vec().into()), None, "extents of no bytes");
    }
}
