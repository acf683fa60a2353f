//! `Packages` as archives have them: plain, by gzip and by xz, in pieces of every size, whole and broken.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::super::unpack::MOST_AT_ONCE;
use super::*;

const SUM: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn text() -> String {
    format!(
        "Package: a\nFilename: pool/a.deb\nSHA256: {SUM}\nDescription: x\n Filename: no\n\n\
         Package: b\nfilename:./b.deb\nsha256:{SUM}\r\n\r\nFilename: c.deb\nSHA256: 00\n\nSHA256: {SUM}\n\n\
         Filename: {}\nSHA256: {SUM}\n\nFilename: d.deb\nSHA256: {SUM}",
        "x".repeat(2000)
    )
}

fn packages() -> Packages {
    Packages::new(Arc::new(Semaphore::new(MOST_AT_ONCE)))
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// By the `xz` of the package xz-utils, with these arguments.
fn xzipped(bytes: &[u8], arguments: &[&str]) -> Vec<u8> {
    let mut xz = Command::new("xz").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, bytes) = (xz.stdin.take().unwrap(), bytes.to_vec());
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let output = xz.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn found(bytes: &[u8], size: usize) -> Vec<String> {
    let (mut packages, mut all) = (packages(), Vec::new());
    let mut find = |file: &str, sum: Sum| {
        assert_eq!(Some(sum), Sum::hex(Hash::Sha256, SUM));
        all.push(file.to_owned());
    };
    bytes.chunks(size).for_each(|piece| packages.push(piece, &mut find));
    packages.end(&mut find);
    all
}

#[test]
fn stanzas_plain_and_compressed() {
    let text = text();
    let plain = text.as_bytes();
    let by_xz = |arguments: &[&str]| xzipped(plain, arguments);
    let checks = ["none", "crc32", "crc64"].map(|check| by_xz(&["-6", "-C", check]));
    let packed = [vec![gzipped(plain), by_xz(&["-0"]), by_xz(&["--block-size=700"])], checks.to_vec()].concat();
    let expected = ["pool/a.deb", "./b.deb", "d.deb"];
    for size in [1, 2, 3, 7, 100, 10_000] {
        assert_eq!(found(plain, size), expected, "pieces of {size}");
        for packed in &packed {
            assert_eq!(found(packed, size), expected, "pieces of {size}");
        }
        // As `cat` puts them together, and with the padding that xz allows.
        for (first, second, between) in [(0, 0, &b""[..]), (1, 2, b""), (2, 1, &[0; 8])] {
            let end = if first == 0 { gzipped(b"\n\n") } else { xzipped(b"\n\n", &[]) };
            let twice = [&packed[first][..], between, &end, between, &packed[second]].concat();
            assert_eq!(found(&twice, size), [expected, expected].concat(), "pieces of {size}");
        }
    }
}

/// More than a window, with lines like those of a real archive.
#[test]
fn a_large_archive_is_read_through_a_window() {
    let stanza = |n: u32| format!("Package: p{n}\nDescription: {:x}\nFilename: {n}.deb\nSHA256: {SUM}\n\n", n * n);
    let text: String = (0..60_000).map(stanza).collect();
    for packed in [gzipped(text.as_bytes()), xzipped(text.as_bytes(), &["-1"]), xzipped(text.as_bytes(), &["-T2"])] {
        let files = found(&packed, 100_000);
        assert_eq!((files.len(), files.last().unwrap().as_str()), (60_000, "59999.deb"));
    }
}

#[test]
fn what_is_none() {
    let (gzip, xz) = (gzipped(text().as_bytes()), xzipped(text().as_bytes(), &[]));
    let none = b"\xfd7zXZ\0Filename: a\n";
    for bytes in [&b""[..], b"\x1f", b"\x1f\x8b", b"\x1fFilename: a", b"\xfd7z", none, &gzip[..20], &xz[..20]] {
        assert_eq!(found(bytes, 3), Vec::<String>::new());
    }
    // Whatever is broken, it ends.
    for packed in [gzip, xz] {
        for at in 0..packed.len() {
            let mut broken = packed.clone();
            broken[at] ^= 0x55;
            broken.chunks(7).fold(packages(), |mut packages, piece| {
                packages.push(piece, &mut |_, _| {});
                packages
            });
        }
    }
}

#[test]
fn all_is_told_with_the_piece_that_says_it() {
    let text = format!("Filename: a.deb\nSHA256: {SUM}\n");
    for packed in [gzipped(text.as_bytes()), xzipped(text.as_bytes(), &[])] {
        let (mut packages, mut count) = (packages(), 0);
        packages.push(&packed, &mut |_, _| count += 1);
        assert_eq!(count, 1);
    }
}

#[test]
fn a_line_without_an_end_and_a_bomb_are_given_up() {
    let mut endless = packages();
    for _ in 0..64 {
        endless.push(&[b'F'; 1 << 20], &mut |_, _| panic!("there is no file"));
        assert!(endless.stanzas.line.capacity() <= 2 * (MOST_LINE + 1));
    }
    let zeros = vec![b'\n'; 64 << 20];
    for bomb in [gzipped(&zeros), xzipped(&zeros, &["-0"])] {
        let mut lines = 0;
        let mut unpack = Unpack::new(Arc::new(Semaphore::new(1)));
        unpack.push(&bomb, &mut |text| lines += text.len());
        assert!(lines < 16 << 20, "{lines} of {}", bomb.len());
    }
}

/// A window of xz is 8 MiB. One that wants more is not read, nor is the one that would be the fifth at once; that one is next time.
#[test]
fn windows_of_xz_have_a_budget() {
    let (text, windows) = (text(), Arc::new(Semaphore::new(MOST_AT_ONCE)));
    assert_eq!(found(&xzipped(text.as_bytes(), &["--lzma2=dict=9MiB"]), 100), Vec::<String>::new());
    let packed = xzipped(text.as_bytes(), &[]);
    let mut others: Vec<_> = (0..MOST_AT_ONCE).map(|_| Packages::new(windows.clone())).collect();
    others.iter_mut().for_each(|other| other.push(&packed[..100], &mut |_, _| {}));
    let mut fifth = Packages::new(windows.clone());
    fifth.push(&packed, &mut |_, _| panic!("it is not read"));
    assert!(fifth.is_put_off() && !others.iter().any(Packages::is_put_off));
    // Others wait for nobody.
    let (mut plain, mut count) = (Packages::new(windows.clone()), 0);
    plain.push(text.as_bytes(), &mut |_, _| count += 1);
    assert!(count > 0 && !plain.is_put_off());
    drop(others);
    let (mut sixth, mut count) = (Packages::new(windows), 0);
    sixth.push(&packed, &mut |_, _| count += 1);
    assert!(count > 0 && !sixth.is_put_off());
}
