//! Between Pingora's metadata and the forms in which a head keeps them.
//!
//! Pingora reads metadata back from two packed forms: its times as MessagePack, its header as a zstd frame. Neither is
//! of use to anybody else, and packing and unpacking them costs more than everything else about a small object. A head
//! keeps plain numbers and the plain header; Pingora's forms are made from them when Pingora asks, with the header in
//! a zstd frame that holds it as it is.

use std::time::SystemTime;

use pingora_cache::key::HashBinary;
use pingora_cache::meta::CacheMeta;
use pingora_error::{Error, ErrorType, Result};
use pingora_http::ResponseHeader;
use serde::Serialize;

/// The array that Pingora's metadata are as MessagePack, in its order; the first is the version of that form.
#[derive(Serialize)]
struct Packed(
    u8,
    SystemTime,
    SystemTime,
    SystemTime,
    u32,
    u32,
    Option<HashBinary>,
    Option<SystemTime>,
    Option<SystemTime>,
);
const PACKED_VERSION: u8 = 2;

/// The start of a zstd frame (RFC 8878 3.1.1) that is one segment, has its length in four bytes, and no checksum: the
/// store has its own.
const FRAME_START: [u8; 5] = [0x28, 0xB5, 0x2F, 0xFD, 0xA0];

/// What Pingora's metadata say beside the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub fresh_until: SystemTime,
    pub created: SystemTime,
    pub updated: SystemTime,
    pub provenance: SystemTime,
    pub epoch_override: Option<SystemTime>,
    pub stale_while_revalidate_sec: u32,
    pub stale_if_error_sec: u32,
    pub variance: Option<HashBinary>,
}

pub(crate) fn times(meta: &CacheMeta) -> Times {
    Times {
        fresh_until: meta.fresh_until(),
        created: meta.created(),
        updated: meta.updated(),
        provenance: meta.provenance(),
        epoch_override: meta.epoch_override(),
        stale_while_revalidate_sec: meta.stale_while_revalidate_sec(),
        stale_if_error_sec: meta.stale_if_error_sec(),
        variance: meta.variance(),
    }
}

/// The metadata that [`times`] and [`write_wire`] were made from. Errors: the header is not one.
pub(crate) fn unpack(times: &Times, wire: &[u8]) -> Result<CacheMeta> {
    CacheMeta::deserialize(&packed(times)?, &frame(wire))
}

fn packed(times: &Times) -> Result<Vec<u8>> {
    let array = Packed(
        PACKED_VERSION,
        times.fresh_until,
        times.created,
        times.updated,
        times.stale_while_revalidate_sec,
        times.stale_if_error_sec,
        times.variance,
        times.epoch_override,
        Some(times.provenance),
    );
    rmp_serde::to_vec(&array).map_err(|error| Error::because(ErrorType::InternalError, "packing metadata", error))
}

/// `wire` and the empty line behind it in one raw block (RFC 8878 3.1.1.2), which holds up to 128 KiB.
fn frame(wire: &[u8]) -> Vec<u8> {
    let length = (wire.len() + 2) as u32;
    let last_raw_block = (length << 3 | 1).to_le_bytes();
    let mut frame = Vec::with_capacity(wire.len() + 16);
    frame.extend_from_slice(&FRAME_START);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(last_raw_block.get(..3).unwrap_or_default());
    frame.extend_from_slice(wire);
    frame.extend_from_slice(b"\r\n");
    frame
}

/// The status line and the header lines, with names in the case they came in.
pub(crate) fn write_wire(header: &ResponseHeader, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(header.status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(header.status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    header.header_to_h1_wire(out);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Pingora's own packing is the measure: what it unpacks from ours must be what it packs.
    #[test]
    fn packed_as_pingora_packs() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::new(seconds, 7);
        let mut header = ResponseHeader::build(404, None).unwrap();
        header.append_header("X-A", "1").unwrap();
        header.append_header("x-a", "2").unwrap();
        let mut meta = CacheMeta::new(at(2_000_000_000), at(1_000_000_000), 5, 70_000, header);
        for variance in [None, Some([7; 16])] {
            if let Some(variance) = variance {
                meta.set_variance(variance);
                meta.set_epoch_override(at(1_500_000_000));
            }
            let (internal, _) = meta.serialize().unwrap();
            assert_eq!(packed(&times(&meta)).unwrap(), internal);
            let mut wire = Vec::new();
            write_wire(meta.response_header(), &mut wire);
            assert_eq!(wire, b"HTTP/1.1 404 Not Found\r\nX-A: 1\r\nx-a: 2\r\n");
            let back = unpack(&times(&meta), &wire).unwrap();
            assert_eq!(back.serialize().unwrap(), meta.serialize().unwrap());
        }
    }

    #[test]
    fn headers_of_every_length_are_framed() {
        let times = times(&CacheMeta::new(
            SystemTime::UNIX_EPOCH,
            SystemTime::UNIX_EPOCH,
            0,
            0,
            ResponseHeader::build(200, None).unwrap(),
        ));
        for length in [1, 255, 256, 65_535, 65_536, crate::MAX_HEADER_BYTES - 16] {
            let value = "v".repeat(length);
            let wire = format!("HTTP/1.1 200 OK\r\nx: {value}\r\n");
            let meta = unpack(&times, wire.as_bytes()).unwrap();
            assert_eq!(meta.headers().get("x").unwrap().len(), length);
        }
        assert!(unpack(&times, b"no header").is_err());
        assert!(unpack(&times, b"").is_err());
    }
}
