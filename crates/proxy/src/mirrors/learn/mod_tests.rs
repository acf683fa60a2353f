//! Which answers are read for what they say.

use super::*;
use crate::mirrors::{Aim, Mirror};

const NAMED: &str =
    "/d/dists/x/main/binary-all/by-hash/SHA256/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// Reads an index to its end, if it is read at all.
fn is_read(mounted: &Arc<Mounted>, path: &str, fields: &[(http::HeaderName, &str)]) -> bool {
    let Aim { at, destination, host, path } = mounted.aim(path).unwrap();
    let mut head = ResponseHead::new(StatusCode::OK);
    fields.iter().for_each(|(name, value)| head.headers.insert(name.clone(), *value).unwrap());
    let Some(mut learning) = Learning::begin(&at, &Place { destination, host, path }, &head) else { return false };
    learning.push(b"Filename: x.deb\n\n");
    learning.end();
    true
}

/// An archive whose answers have no validators had each of its clients wait while all of an index was unpacked again.
#[test]
fn an_index_that_is_the_same_is_read_once() {
    let mirror = Mirror { kind: Some(Kind::Apt), ..Mirror::new("/d/".into(), "http://x.example/".parse().unwrap()) };
    let mounted = Arc::new(Mounted::new(mirror, None, Table::new([7; 32])));
    let plain = "/d/dists/x/main/binary-all/Packages";
    let [one, other] = ["\"1\"", "\"2\""].map(|tag| [(ETAG, tag)]);
    assert_eq!([&one, &one, &other, &other].map(|tag| is_read(&mounted, plain, tag)), [true, false, true, false]);
    assert_eq!([0, 1].map(|_| is_read(&mounted, plain, &[])), [true, true], "it may be another each time");
    assert_eq!([0, 1].map(|_| is_read(&mounted, NAMED, &[])), [true, false], "its name says what it is");
    assert!(!is_read(&mounted, "/d/pool/x.deb", &[]));
}
