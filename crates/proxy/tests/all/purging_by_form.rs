//! Purging by `POST /purge` at the address of the metrics: with the credentials, and not without.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tempfile::TempDir;
use tinaja_proxy::mirrors::Credentials;

use crate::support::{Origin, Proxy};
use tinaja_testkit::port::free_port;

const TOKEN: &str = "Authorization: Bearer 9f2c7a41d0b34be2\r\n";

/// A proxy with a directory for its purges, and where it is asked; with credentials for that, or without.
fn proxy(dir: &TempDir, has_credentials: bool) -> (Proxy, SocketAddr) {
    let (at, path) = (SocketAddr::from(([127, 0, 0, 1], free_port())), dir.path().join("token"));
    fs::write(&path, "bearer 9f2c7a41d0b34be2\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let proxy = Proxy::with(|config| {
        config.control = Some(dir.path().to_owned());
        config.metrics = Some(at);
        config.purge_credentials = has_credentials.then(|| Credentials::read(&path).unwrap());
    });
    (proxy, at)
}

/// Status and text of the answer to these bytes.
fn said(at: SocketAddr, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    assert_eq!(head.contains("WWW-Authenticate"), head.contains(" 401 "), "{head}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), text.to_owned())
}

fn post(at: SocketAddr, fields: &str, form: &str) -> (u16, String) {
    let head = format!("POST /purge HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {}\r\n\r\n", form.len());
    said(at, (head + form).as_bytes())
}

#[test]
fn what_a_form_names_is_taken_back() {
    let dir = TempDir::new().unwrap();
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nxkey: a b\r\n", "x");
    let (proxy, at) = proxy(&dir, true);
    let host = origin.address.ip();
    let (one, other) = (origin.url("/img/1"), origin.url("/2"));
    for (form, lines, goes) in [
        (format!("url={one}"), format!("{one}: purged\n"), [true, false]),
        (format!("url={one}&url={one}x"), format!("{one}: purged\n{one}x: was not in the cache\n"), [true, false]),
        (format!("prefix={}", origin.url("/img/")), format!("prefix {}: purged\n", origin.url("/img/")), [true, false]),
        ("suffix=2".into(), "suffix 2: purged\n".into(), [false, true]),
        ("regex=%2Fimg%2F%5B0-9%5D".into(), "regex /img/[0-9]: purged\n".into(), [true, false]),
        (format!("tag=b&host={host}"), format!("tag b at {host}: purged\n"), [true, true]),
        ("tag=c&tag=d".into(), "tag c: purged\ntag d: purged\n".into(), [false, false]),
        (format!("host={host}"), format!("host {host}: purged\n"), [true, true]),
        ("all=1".into(), "everything: purged\n".into(), [true, true]),
        ("all=1&soft=1".into(), "everything: purged softly\n".into(), [true, true]),
    ] {
        for url in [&one, &other] {
            proxy.get(url);
            assert!(proxy.get(url).is_hit(), "{url} before {form}");
        }
        assert_eq!(post(at, TOKEN, &form), (200, lines), "{form}");
        assert_eq!([&one, &other].map(|url| !proxy.get(url).is_hit()), goes, "{form}");
    }
    // A form that comes byte by byte is one, too.
    let mut stream = TcpStream::connect(at).unwrap();
    for byte in format!("POST /purge HTTP/1.1\r\nHost: a\r\n{TOKEN}Content-Length: 5\r\n\r\nall=1").as_bytes() {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("everything: purged\n"), "{answer}");
}

#[test]
fn nobody_else_is_heard_and_nothing_is_purged() {
    let dir = TempDir::new().unwrap();
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "x");
    let url = origin.url("/x");
    let (closed, at_closed) = proxy(&TempDir::new().unwrap(), false);
    assert_eq!(post(at_closed, TOKEN, "all=1").0, 405, "nobody has credentials there");
    drop(closed);
    let (proxy, at) = proxy(&dir, true);
    proxy.get(&url);
    for fields in [
        "",
        "Authorization: Bearer 9f2c7a41d0b34be3\r\n",
        "Authorization: Bearer 9f2c7a41d0b34be\r\n",
        "Authorization: Basic 9f2c7a41d0b34be2\r\n",
        "Authorization: Bearer x\r\nAuthorization: Bearer 9f2c7a41d0b34be2\r\n",
        "X-Authorization: Bearer 9f2c7a41d0b34be2\r\n",
    ] {
        assert_eq!(post(at, fields, "all=1").0, 401, "{fields}");
    }
    for form in [
        "",
        "soft=1",
        "everything=1",
        "all=yes",
        "tag=a b",
        "tag=a%20b&all=1",
        "url=/x&all=1",
        "tag=%",
        "regex=(a{9999}){9999}&all=1",
    ] {
        let (status, why) = post(at, TOKEN, form);
        assert!(status == 400 && why.ends_with("nothing was purged\n"), "{form}: {status} {why}");
    }
    let asked =
        |line: &str, fields: &str| said(at, format!("{line} HTTP/1.1\r\nHost: a\r\n{TOKEN}{fields}\r\n").as_bytes()).0;
    assert_eq!(asked("GET /purge?all=1", ""), 405);
    assert_eq!(asked("POST /purge", "Content-Length: 65537\r\n"), 413);
    assert_eq!(asked("POST /purge", "Transfer-Encoding: chunked\r\n"), 411);
    assert_eq!(asked("POST /metrics", "Content-Length: 0\r\n"), 405);
    assert_eq!(asked("GET /healthz", ""), 200);
    // One that ends before its form does purges nothing.
    let mut stream = TcpStream::connect(at).unwrap();
    stream
        .write_all(format!("POST /purge HTTP/1.1\r\nHost: a\r\n{TOKEN}Content-Length: 9\r\n\r\nall=1").as_bytes())
        .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert!(proxy.get(&url).is_hit());
}
