//! Debian's nginx as an origin that speaks HTTP/2, chosen by TLS and without asking.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::support::home::Home;
use tinaja_testkit::body::body;
use tinaja_testkit::client::{Response, get, get_with};
use tinaja_testkit::nginx::{Nginx, make_certificates};

const LEN: usize = 3_000_000;

fn fill(root: &Path) {
    fs::write(root.join("file"), body("file", LEN)).unwrap();
    fs::write(root.join("small"), body("small", 100)).unwrap();
}

#[test]
fn nginx_is_asked_by_http2() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    // The protocol that nginx saw, where HTTP/2 is asked for and where it is not.
    for (origin, http2, seen) in [
        (Nginx::start_http2(Some(&certificates), fill), true, "HTTP/2.0"),
        (Nginx::start_http2(None, fill), true, "HTTP/2.0"),
        (Nginx::start_http2(Some(&certificates), fill), false, "HTTP/1.1"),
        // An origin that knows HTTP/1.1 alone does not choose the other.
        (Nginx::start_tls(&certificates, fill), true, "HTTP/1.1"),
    ] {
        let home = Home::new();
        let trusted = match origin.url("").starts_with("https") {
            true => format!("authority = \"{}\"", certificates.authority.display()),
            false => String::new(),
        };
        let url = origin.url("");
        let reverse =
            format!("mode = \"reverse\"\norigins = [\"{url}\"]\n[listener.upstream]\nhttp2 = {http2}\n{trusted}\n");
        let mut tinaja = home.start(&reverse);
        let whole = get(home.listen, "/file").unwrap();
        assert!(whole.status == 200 && whole.body == body("file", LEN), "{url}");
        assert_eq!(whole.header("x-protocol"), Some(seen), "{url}");
        let part = get_with(home.listen, "/file?part", "Range: bytes=1000000-1999999\r\n").unwrap();
        assert!(part.status == 206 && part.body == body("file", LEN)[1_000_000..2_000_000], "{url}");
        let tag = whole.header("etag").unwrap();
        let same = get_with(home.listen, "/file?same", &format!("If-None-Match: {tag}\r\n")).unwrap();
        assert_eq!((same.status, same.body.len()), (304, 0));
        assert_eq!(get(home.listen, "/missing").unwrap().status, 404);
        std::thread::scope(|scope| {
            for client in 0..8 {
                let (listen, url) = (home.listen, &url);
                scope.spawn(move || {
                    for n in 0..25 {
                        let Response { status, body: got, .. } = get(listen, &format!("/small?{client}-{n}")).unwrap();
                        assert!(status == 200 && got == body("small", 100), "{url} {client} {n}: {status}");
                    }
                });
            }
        });
        assert!(tinaja.terminate().success());
    }
}
