//! Where the parts of a large object lie: the body of its head record.
//!
//! ```text
//! u64 body bytes, u32 extent bytes, then a u64 place for each extent; all but the last are full
//! ```

use bytes::Bytes;

use crate::engine::Place;

/// Bytes before the first place.
const NUMBERS_BYTES: usize = 12;

/// Bytes of a table of one extent.
pub(crate) const ONE_EXTENT_BYTES: usize = NUMBERS_BYTES + 8;

/// One part of a large body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) place: Place,
    pub(crate) bytes: u32,
}

/// All parts of a large body, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) body_bytes: u64,
    pub(crate) extent_bytes: u32,
    pub(crate) extents: Vec<Extent>,
}

impl Table {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + 8 * self.extents.len());
        bytes.extend_from_slice(&self.body_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.extent_bytes.to_le_bytes());
        self.extents.iter().for_each(|extent| bytes.extend_from_slice(&extent.place.0.to_le_bytes()));
        bytes
    }

    /// `None` if the numbers do not fit each other. Memory: 16 bytes for each 8 of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Table> {
        let (body_bytes, rest) = bytes.split_first_chunk()?;
        let (extent_bytes, rest) = rest.split_first_chunk()?;
        let (body_bytes, extent_bytes) = (u64::from_le_bytes(*body_bytes), u32::from_le_bytes(*extent_bytes));
        let (places, []) = rest.as_chunks::<8>() else {
            return None;
        };
        if extent_bytes == 0 || body_bytes.div_ceil(u64::from(extent_bytes)) != places.len() as u64 {
            return None;
        }
        let left = |n: usize| body_bytes - n as u64 * u64::from(extent_bytes);
        let extent = |(n, place): (usize, &[u8; 8])| Extent {
            place: Place(u64::from_le_bytes(*place)),
            bytes: left(n).min(u64::from(extent_bytes)) as u32,
        };
        Some(Table { body_bytes, extent_bytes, extents: places.iter().enumerate().map(extent).collect() })
    }
}

/// A table as it was encoded, with every place changed: the same bytes where `change` leaves the first place as it is.
pub(crate) fn with_places(bytes: Bytes, change: impl Fn(Place) -> Place) -> Bytes {
    let (numbers, places) = bytes.split_at(bytes.len().min(NUMBERS_BYTES));
    let (places, _) = places.as_chunks::<8>();
    let changed = |place: &[u8; 8]| change(Place(u64::from_le_bytes(*place))).0.to_le_bytes();
    if places.first().is_none_or(|place| changed(place) == *place) {
        return bytes;
    }
    numbers.iter().copied().chain(places.iter().flat_map(changed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_back_and_nonsense_does_not() {
        let extent = |n: u64, bytes| Extent { place: Place(n * 1000), bytes };
        let table =
            Table { body_bytes: 250, extent_bytes: 100, extents: vec![extent(1, 100), extent(7, 100), extent(2, 50)] };
        let bytes = table.encode();
        assert_eq!(Table::decode(&bytes), Some(table.clone()));
        let moved = with_places(bytes.clone().into(), |place| Place(place.0 + 5));
        assert_eq!(
            Table::decode(&moved).unwrap().extents.iter().map(|extent| extent.place.0).collect::<Vec<_>>(),
            [1005, 7005, 2005]
        );
        for cut in 0..bytes.len() {
            assert_eq!(Table::decode(&bytes[..cut]), None);
        }
        assert_eq!(Table::decode(&[&u64::MAX.to_le_bytes()[..], &1_u32.to_le_bytes(), &[0; 8]].concat()), None);
        assert_eq!(Table::decode(&[&0_u64.to_le_bytes()[..], &0_u32.to_le_bytes()].concat()), None);
    }
}
