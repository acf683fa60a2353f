//! The heads that the adapter for Pingora's cache stores: any bytes are a head or none, and metadata come back as Pingora
//! itself would pack them.
#![no_main]
#![allow(dead_code)]

// The two files are the adapter's own; how they are written is private to it.
#[path = "../../crates/pingora/src/head.rs"]
mod head;
#[path = "../../crates/pingora/src/meta.rs"]
mod meta;

use std::time::{Duration, SystemTime};

use head::StoredHead;
use http::{HeaderName, HeaderValue};
use pingora_cache::key::CacheKey;
use pingora_cache::meta::CacheMeta;
use pingora_http::ResponseHeader;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    if mode % 2 == 0 {
        if let Some(head) = StoredHead::decode(data) {
            let _ = (head.fresh_until(), head.epoch(), head.provenance(), head.variance(), head.wire(), head.meta());
        }
        let _ = (head::primary_key(data), head::is_old(data));
    } else {
        write(data);
    }
});

fn write(data: &[u8]) {
    let Some((numbers, rest)) = data.split_at_checked(44) else { return };
    let time = |at: usize| {
        let nanoseconds = u64::from_le_bytes(numbers[at..at + 8].try_into().unwrap());
        SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
    };
    let flags = numbers[24];
    let mut header = ResponseHeader::build(100 + u16::from(numbers[25]) % 500, None).unwrap();
    let (primary, fields) = rest.split_at(rest.len() / 3);
    for line in fields.split(|byte| *byte == b'\n') {
        let (name, value) = line.split_at(line.len().min(1 + usize::from(numbers[26] % 8)));
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value.trim_ascii())) {
            header.append_header(name, value).unwrap();
        }
    }
    let seconds = u32::from_le_bytes(numbers[27..31].try_into().unwrap());
    let mut meta = CacheMeta::new(time(0), time(8), seconds, u32::from(numbers[31]), header);
    if flags & 1 != 0 {
        meta.set_variance([numbers[32]; 16]);
    }
    if flags & 2 != 0 {
        meta.set_epoch_override(time(16));
    }
    let mut key = CacheKey::new(primary, "");
    if flags & 4 != 0 {
        key.set_variance_key([numbers[33]; 16]);
    }
    let Ok(bytes) = head::encode(&key, &meta) else { return };
    let head = StoredHead::decode(&bytes).unwrap();
    assert!(head.belongs_to(&key));
    assert_eq!(head::primary_key(&bytes), Some(key.primary_key()));
    let back = head.meta().unwrap();
    assert_eq!(back.serialize().unwrap(), meta.serialize().unwrap());
    assert_eq!(head.with_meta(&back).unwrap(), bytes);
    assert!(StoredHead::decode(&bytes[..bytes.len() - 1]).is_none());
    assert!(StoredHead::decode(&[&bytes[..], b"x"].concat()).is_none());
}
