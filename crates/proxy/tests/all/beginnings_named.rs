//! A mirror checks what is named by its digest while it comes, and stores it only if it is right. A beginning and parts cannot be
//! checked, and were kept: once they were all there they were served as if somebody had checked them.

use tinaja_proxy::mirrors::{Kind, Mirror, Mirrors};

use crate::beginnings::{READ, leave, whole};
use crate::parts::{FRESH, File, LENGTH, bytes_of, get, part, stored};
use crate::support::{Origin, Proxy, eventually};

/// A mirror of an archive, and the path of a file that is named by these bytes' digest.
fn mirror(origin: &Origin, bytes: &[u8]) -> (Proxy, String) {
    let proxy = Proxy::with(|config| {
        let source = origin.url("/debian/").parse().unwrap();
        let mirror = Mirror { kind: Some(Kind::Apt), ..Mirror::new("/debian/".into(), source) };
        config.listeners[0].mirrors = Mirrors::new(vec![mirror], None).unwrap();
    });
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    (proxy, format!("/debian/dists/by-hash/SHA256/{hex}"))
}

#[test]
fn neither_a_beginning_nor_a_part_is_kept_of_what_is_named_by_its_digest() {
    let file = File::new(FRESH);
    let origin = file.origin();
    let (proxy, path) = mirror(&origin, &bytes_of(0, 0..LENGTH));
    leave(&proxy, &origin, &file, &path, "");
    assert!(file.sent() >= READ as u64 && proxy.store.stats().stored == 0);
    for _ in 0..2 {
        assert_eq!(part(&proxy, &file, &path, 0..100_000).1, 100_000);
    }
    assert_eq!(whole(&proxy, &file, &path), LENGTH);
    eventually("it is stored", || proxy.get(&path).is_hit());
    // Of what was checked to the end parts are served.
    assert_eq!(part(&proxy, &file, &path, 1000..2000).1, 0);
}

/// The same URL is asked for past the mirror, where nobody knows what its name means.
#[test]
fn pieces_that_nobody_checked_are_not_used() {
    let file = File::new(FRESH);
    let origin = file.origin();
    let (proxy, path) = mirror(&origin, &bytes_of(1, 0..LENGTH));
    let url = origin.url(&path);
    for bytes in [0..2_500_000, 2_500_000..LENGTH] {
        part(&proxy, &file, &url, bytes.clone());
        stored(&proxy, &url, bytes);
    }
    let wrong = proxy.get(&path);
    assert!(!wrong.is_hit() && wrong.body.len() < LENGTH as usize, "{} {}", wrong.head, wrong.body.len());
    file.change();
    let before = file.sent();
    let right = get(&proxy, &path, "0-999");
    assert!(right.status == 206 && right.body == bytes_of(1, 0..1000) && file.sent() > before, "{}", right.head);
    assert_eq!(whole(&proxy, &file, &path), LENGTH);
}
