//! What an index says of a file is what the file must be: a source's damaged file was stored, and served for as long as it was fresh.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use ring::digest::{Algorithm, SHA256, SHA512, digest};
use tinaja_proxy::Config;
use tinaja_proxy::mirrors::{Kind, Mirror, Mirrors};
use tinaja_testkit::client::{get, get_with};

use crate::beginnings::{READ, leave, whole};
use crate::parts::{FRESH, File, LENGTH, bytes_of, part};
use crate::support::{Origin, Proxy, eventually, reply};

/// By path, each with its type.
type Files = HashMap<String, (String, Vec<u8>)>;

/// What a source has: by path, its type and its bytes.
#[derive(Clone, Default)]
pub struct Source(Arc<Mutex<Files>>);

impl Source {
    pub fn put(&self, path: &str, media_type: &str, body: impl AsRef<[u8]>) {
        self.0.lock().unwrap().insert(path.to_owned(), (media_type.to_owned(), body.as_ref().to_vec()));
    }

    pub fn origin(&self) -> Origin {
        let source = self.clone();
        Origin::start(move |request, stream| {
            let there = source.0.lock().unwrap().get(&request.path).cloned();
            let Some((media_type, body)) = there else { return reply(stream, request, 404, "", b"none") };
            let tag = format!("\"{}\"", &hex(&SHA256, &body)[..16]);
            let fields = format!("Content-Type: {media_type}\r\nETag: {tag}\r\n");
            let is_same = request.field("if-none-match").is_some_and(|known| known.contains(&tag));
            reply(stream, request, if is_same { 304 } else { 200 }, &fields, if is_same { b"" } else { &body })
        })
    }
}

pub fn hex(algorithm: &'static Algorithm, bytes: &[u8]) -> String {
    digest(algorithm, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 4648 4, of the 64 bytes of a digest.
fn base64(bytes: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<bool> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1 == 1)).collect();
    let letter = |six: &[bool]| {
        letters[six.iter().chain(&[false; 5]).take(6).fold(0, |number, bit| number * 2 + usize::from(*bit))]
    };
    bits.chunks(6).map(|six| char::from(letter(six))).collect::<String>() + "=="
}

/// Mirrors of one source, at these paths.
pub fn mirrors(kind: Kind, origin: &Origin, hosts: &[&Origin], paths: &[&str]) -> impl FnOnce(&mut Config) {
    let of = |path: &&str| {
        let source = origin.url("/index/").parse().unwrap();
        let hosts = hosts.iter().map(|host| host.url("").parse().unwrap()).collect();
        Mirror { kind: Some(kind), hosts, ..Mirror::new((*path).into(), source) }
    };
    let mirrors = Mirrors::new(paths.iter().map(of).collect(), Some("http://cache.example:80".parse().unwrap()));
    move |config| config.listeners[0].mirrors = mirrors.unwrap()
}

/// Where a file of another host is, in the mirror at `/m/`.
pub fn elsewhere(origin: &Origin, path: &str) -> String {
    format!("/m/~/http-{}/127.0.0.1{path}", origin.address.port())
}

/// The bytes that a client has as a whole answer.
pub fn fetched(proxy: &Proxy, path: &str) -> Option<Vec<u8>> {
    let answer = get(proxy.address, path).ok()?;
    let length = answer.header("content-length")?.parse::<usize>().unwrap();
    (answer.status == 200 && answer.body.len() == length).then_some(answer.body)
}

pub fn page(url: &str, bytes: &[u8]) -> String {
    format!("<!DOCTYPE html>\n<a href=\"{url}#sha256={}\">x</a>\n", hex(&SHA256, bytes))
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// By the `xz` of the package xz-utils.
fn xzipped(text: &str) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    Command::new("xz").arg("--stdout").arg(file.path()).output().unwrap().stdout
}

/// An index of each kind that names a file with these bytes: its indexes by path, as they are asked for, and the file as it is asked for.
type Sample = (Kind, Vec<(&'static str, &'static str, Vec<u8>)>, &'static str, &'static str);

fn samples(origin: &Origin, right: &[u8]) -> Vec<Sample> {
    let (sha256, url) = (hex(&SHA256, right), |path: &str| origin.url(path));
    let sri = format!("sha512-{}", base64(digest(&SHA512, right).as_ref()));
    let json = format!(r#"{{"files":[{{"url":"{}","hashes":{{"sha256":"{sha256}"}}}}]}}"#, url("/files/x-1.zip"));
    let document = format!(
        r#"{{"versions":{{"1.0.0":{{"dist":{{"tarball":"{}","integrity":"{sri}"}}}}}}}}"#,
        url("/files/x-1.tgz")
    );
    let line = format!("{{\"name\":\"abcd\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{sha256}\"}}\n");
    let packages = format!("Package: x\nFilename: pool/x+~1.deb\nSHA256: {sha256}\n\n");
    let by_hash =
        |packed: &[u8]| &*format!("dists/stable/main/binary-amd64/by-hash/SHA256/{}", hex(&SHA256, packed)).leak();
    let (gzip, xz) = (gzipped(&packages), xzipped(&packages));
    vec![
        (Kind::Pip, vec![("simple/x/", "text/html", page(&url("/files/x-1.whl"), right).into())], "/files/x-1.whl", ""),
        // Relative to the page.
        (Kind::Pip, vec![("simple/x/", "text/html", page("../../f/x-1.whl", right).into())], "", "f/x-1.whl"),
        (Kind::Pip, vec![("simple/x/", "application/vnd.pypi.simple.v1+json", json.into())], "/files/x-1.zip", ""),
        (Kind::Npm, vec![("@s%2fx", "application/json", document.into())], "/files/x-1.tgz", ""),
        (
            Kind::Cargo,
            vec![
                ("config.json", "application/json", format!(r#"{{"dl":"{}"}}"#, url("/files/crates")).into()),
                ("ab/cd/abcd", "text/plain", line.into()),
            ],
            "/files/crates/abcd/1.0.0/download",
            "",
        ),
        (
            Kind::Apt,
            vec![("dists/stable/main/binary-amd64/Packages", "application/octet-stream", packages.clone().into())],
            "",
            "pool/x%2b%7e1.deb",
        ),
        (
            Kind::Apt,
            vec![("dists/stable/main/binary-amd64/Packages.gz", "application/octet-stream", gzip.clone())],
            "",
            "pool/x+~1.deb",
        ),
        (Kind::Apt, vec![(by_hash(&gzip), "application/octet-stream", gzip)], "", "pool/x+~1.deb"),
        (
            Kind::Apt,
            vec![("dists/stable/main/binary-amd64/Packages.xz", "application/x-xz", xz.clone())],
            "",
            "pool/x+~1.deb",
        ),
        (Kind::Apt, vec![(by_hash(&xz), "application/octet-stream", xz)], "", "pool/x+~1.deb"),
        // A flat archive.
        (Kind::Apt, vec![("./Packages", "application/octet-stream", packages.into())], "", "./pool/x+~1.deb"),
    ]
}

#[test]
fn a_file_that_is_not_what_its_index_says_is_neither_given_nor_stored() {
    let right = bytes_of(3, 0..300_000);
    let mut wrong = right.clone();
    wrong[299_999] ^= 1;
    let count = samples(&Source::default().origin(), &right).len();
    for number in 0..count {
        let source = Source::default();
        let origin = source.origin();
        let (kind, indexes, listed, own) = samples(&origin, &right).remove(number);
        let proxy = Proxy::with(mirrors(kind, &origin, &[&origin], &["/m/"]));
        let file = if own.is_empty() { elsewhere(&origin, listed) } else { format!("/m/{own}") };
        let at_source = if own.is_empty() { listed.to_owned() } else { format!("/index/{own}").replace("/./", "/") };
        source.put(&at_source, "application/octet-stream", &wrong);
        for (path, media_type, body) in &indexes {
            source.put(&format!("/index/{path}").replace("/./", "/"), media_type, body);
            assert_eq!(get(proxy.address, &format!("/m/{path}")).unwrap().status, 200, "{kind:?} {path}");
        }
        proxy.has_stored(indexes.len() as u64);
        for _ in 0..2 {
            let stored = proxy.store.stats().stored;
            assert!(fetched(&proxy, &file).is_none(), "{number} {kind:?}");
            eventually("the fetch has ended", || origin.paths().last() == Some(&at_source));
            assert_eq!(proxy.store.stats().stored, stored, "{number} {kind:?}");
        }
        source.put(&at_source, "application/octet-stream", &right);
        assert!(fetched(&proxy, &file).as_ref() == Some(&right), "{number} {kind:?}");
        eventually("it is stored", || get(proxy.address, &file).unwrap().is_hit());
        let asked = origin.count();
        assert!(fetched(&proxy, &file).as_ref() == Some(&right), "{number} {kind:?}");
        assert_eq!(origin.count(), asked, "it is kept: {number} {kind:?}");
    }
}

/// What one mirror was told is no other's, and of what nothing was said nothing is checked; nor of what is compressed.
#[test]
fn what_is_not_known_of_a_file_is_not_held_against_it() {
    let source = Source::default();
    let origin = source.origin();
    source.put("/index/simple/x/", "text/html", page("/index/x-1.zip", b"another"));
    source.put("/index/x-1.zip", "application/zip", "file");
    source.put("/index/y-1.zip", "application/zip", "file");
    let proxy = Proxy::with(mirrors(Kind::Pip, &origin, &[], &["/m/", "/n/"]));
    get(proxy.address, "/m/simple/x/").unwrap();
    assert_eq!(fetched(&proxy, "/n/x-1.zip").unwrap(), b"file");
    assert_eq!(fetched(&proxy, "/m/y-1.zip").unwrap(), b"file");
    // The mirror for which something is known does not give what the other has stored.
    eventually("it is stored", || get(proxy.address, "/n/x-1.zip").unwrap().is_hit());
    assert_eq!(fetched(&proxy, "/m/x-1.zip"), None);
    // A part is the source's word, as it always was.
    let part = get_with(proxy.address, "/m/x-1.zip", "Range: bytes=0-1\r\n").unwrap();
    assert!(part.status == 206 || part.status == 200, "{}", part.head);
    let packed = Origin::fixed("Content-Type: application/zip\r\nContent-Encoding: gzip\r\n", "packed");
    source.put("/index/simple/z/", "text/html", page(&packed.url("/z-1.zip"), b"another"));
    let proxy = Proxy::with(mirrors(Kind::Pip, &origin, &[&packed], &["/m/"]));
    get(proxy.address, "/m/simple/z/").unwrap();
    assert_eq!(fetched(&proxy, &elsewhere(&packed, "/z-1.zip")).unwrap(), b"packed");
}

/// On a thin link nobody pays twice for what has come, though an index says what the whole must be.
#[test]
fn what_has_come_of_a_fetch_is_kept_and_the_whole_is_checked() {
    let source = Source::default();
    let (origin, file) = (source.origin(), File::new(FRESH));
    let files = file.origin();
    source.put("/index/simple/x/", "text/html", page(&files.url("/x-1.whl"), &bytes_of(0, 0..LENGTH)));
    let proxy = Proxy::with(mirrors(Kind::Pip, &origin, &[&files], &["/m/x/"]));
    get(proxy.address, "/m/x/simple/x/").unwrap();
    proxy.has_stored(1);
    // As the tests' client takes a host from it.
    let path = elsewhere(&files, "/x-1.whl").replace("/m/", "/m/x/");
    leave(&proxy, &files, &file, &path, "");
    let moved = whole(&proxy, &file, &path);
    assert!(moved <= LENGTH - READ as u64, "{moved}");
    eventually("it is stored", || proxy.get(&path).is_hit());
    assert_eq!(part(&proxy, &file, &path, 1000..2000).1, 0);
    // A source that breaks off is asked for the rest, as for any file.
    let proxy = Proxy::with(mirrors(Kind::Pip, &origin, &[&files], &["/m/x/"]));
    get(proxy.address, "/m/x/simple/x/").unwrap();
    file.0.breaks_after.store(2_000_000, SeqCst);
    whole(&proxy, &file, &path);
    eventually("it is stored", || proxy.get(&path).is_hit());
}

/// The beginning may be what is wrong. Then it is not what the next fetch goes on from.
#[test]
fn a_beginning_of_another_file_is_used_once() {
    let source = Source::default();
    let (origin, file) = (source.origin(), File::new(FRESH));
    let files = file.origin();
    source.put("/index/simple/x/", "text/html", page(&files.url("/x-1.whl"), &bytes_of(1, 0..LENGTH)));
    let proxy = Proxy::with(mirrors(Kind::Pip, &origin, &[&files], &["/m/"]));
    get(proxy.address, "/m/simple/x/").unwrap();
    proxy.has_stored(1);
    let path = elsewhere(&files, "/x-1.whl");
    leave(&proxy, &files, &file, &path, "");
    assert_eq!(fetched(&proxy, &path), None, "it is put together of what is wrong");
    file.change();
    eventually("it is right now", || fetched(&proxy, &path).as_ref() == Some(&bytes_of(1, 0..LENGTH)));
}
