use std::time::{Duration, SystemTime};

use pingora_cache::key::CacheKey;
use pingora_cache::meta::CacheMeta;
use pingora_http::ResponseHeader;

use super::*;

/// A head of version 2 as it was when the version was made. If this fails, stored caches no longer read: a change of
/// the format needs a new version.
const GOLDEN: &[u8] = include_bytes!("../tests/golden/head-v2.bin");

fn golden_parts() -> (CacheKey, CacheMeta) {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let mut key = CacheKey::new("4:http,1:a,2:80,0:,1:/,", "");
    key.set_variance_key([3; 16]);
    let mut header = ResponseHeader::build(200, None).unwrap();
    header.append_header("ETag", "\"a\"").unwrap();
    header.append_header("content-length", "3").unwrap();
    let mut meta = CacheMeta::new(at(1_800_000_000), at(1_700_000_000), 10, 20, header);
    meta.set_variance([3; 16]);
    meta.set_epoch_override(at(1_600_000_000));
    (key, meta)
}

#[test]
fn the_golden_head_is_written_and_read() {
    let (key, meta) = golden_parts();
    let written = encode(&key, &meta).unwrap();
    if std::env::var_os("TINAJA_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all("tests/golden").unwrap();
        std::fs::write("tests/golden/head-v2.bin", &written).unwrap();
    }
    assert_eq!(written, GOLDEN);
    let head = StoredHead::decode(GOLDEN).unwrap();
    assert!(head.belongs_to(&key));
    assert!(!head.belongs_to(&CacheKey::new("4:http,1:a,2:80,0:,1:/,", "")));
    assert_eq!(head.wire(), b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\ncontent-length: 3\r\n");
    assert_eq!(head.fresh_until(), meta.fresh_until());
    assert_eq!(head.epoch(), meta.epoch());
    assert_eq!(head.variance(), Some([3; 16]));
    assert_eq!(head.meta().unwrap().serialize().unwrap(), meta.serialize().unwrap());
}

#[test]
fn other_versions_are_told_apart() {
    assert!(is_old(&[1, 0]) && !is_old(GOLDEN) && !is_old(&[]));
    for version in [0, 1, 3, 255] {
        assert_eq!(StoredHead::decode(&[&[version], &GOLDEN[1..]].concat()), None);
    }
    assert_eq!(StoredHead::decode(&[&[2, 8], &GOLDEN[2..]].concat()), None, "an unknown flag");
}

#[test]
fn times_that_cannot_be_written_are_bounded() {
    let (key, _) = golden_parts();
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
    let header = ResponseHeader::build(200, None).unwrap();
    let after = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    let head = encode(&key, &CacheMeta::new(after, before, 0, 0, header)).unwrap();
    let head = StoredHead::decode(&head).unwrap();
    assert_eq!(head.epoch(), SystemTime::UNIX_EPOCH);
    assert_eq!(head.fresh_until(), SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::MAX));
}
