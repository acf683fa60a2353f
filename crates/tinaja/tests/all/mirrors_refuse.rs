//! Mirrors of bad sources, and bad settings of mirrors: a clear error, and nothing wrong stored or asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::home::Home;
use tinaja_testkit::client::{Client, get, get_with};
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::output;
use tinaja_testkit::wait::eventually;

const FORWARD: &str = "allow_destination = \"127.0.0.0/8\"";

/// A source that redirects as its paths say: `/to/URL` goes there.
fn redirecting() -> Origin {
    Origin::start(|request, stream| match request.path.strip_prefix("/to/") {
        Some("itself") => reply(stream, request, 302, "Location: itself\r\nCache-Control: max-age=60\r\n", b""),
        // What no client could ask for in a path of its own.
        Some("userinfo") => reply(stream, request, 302, "Location: http://user@127.0.0.1/\r\n", b""),
        Some("escapes") => reply(stream, request, 302, "Location: /%2e%2e/x\r\n", b""),
        Some("nowhere") => reply(stream, request, 302, "", b""),
        Some(url) => {
            reply(stream, request, 302, &format!("Location: {url}\r\nCache-Control: max-age=60\r\n"), b"moved")
        }
        // Each time elsewhere, without end.
        None if request.path.starts_with("/more") => {
            reply(stream, request, 302, &format!("Location: {}x\r\n", request.path), b"")
        }
        None if request.path == "/cookie" => reply(stream, request, 200, "Set-Cookie: a=b\r\nAlt-Svc: h2\r\n", b"here"),
        None => reply(stream, request, 200, "Content-Type: text/plain\r\nCache-Control: max-age=60\r\n", b"here"),
    })
}

fn mirror(home: &mut Home, origin: &Origin, more: &str) {
    home.top = format!("[[mirror]]\npath = \"/m/\"\norigin = \"{}\"\n{more}", origin.url("/"));
}

fn assert_refused(home: &Home, tinaja: &Process, path: &str, why: &str) {
    let answer = get(home.listen, path).unwrap();
    let (status, text, id) = (answer.status, answer.text(), answer.request_id());
    assert!(status == 502 || status == 403 || status == 404, "{path}: {status} {text}");
    if status != 404 {
        eventually("the log says why", || tinaja.output().lines().any(|line| line.contains(&id) && line.contains(why)));
    }
}

#[test]
fn redirects_are_followed_to_listed_hosts_and_nowhere_else() {
    let (source, listed, other) = (redirecting(), redirecting(), redirecting());
    let mut home = Home::new();
    mirror(&mut home, &source, &format!("hosts = [\"{}\"]\n", listed.url("")));
    let tinaja = home.start(FORWARD);
    let get = |path: &str| get(home.listen, path).unwrap();
    // To a listed host: followed inside, and both are stored.
    for round in 0..2 {
        let answer = get(&format!("/m/to/{}", listed.url("/x")));
        assert_eq!((answer.status, answer.text().as_str()), (200, "here"), "round {round}");
    }
    assert_eq!((source.count(), listed.count()), (1, 1));
    let cookie = get("/m/cookie");
    assert_eq!(cookie.header("content-security-policy"), Some("sandbox"), "its pages are not of this host");
    assert!(cookie.header("set-cookie").is_none() && cookie.header("alt-svc").is_none(), "{cookie:?}");
    // Within the source: the client is told, since relative links go by where it is.
    let answer = get("/m/to//y");
    assert_eq!(
        (answer.status, answer.header("location").unwrap()),
        (302, format!("http://{}/m/y", home.listen).as_str())
    );
    // From one to the other and back, without end.
    let circle = format!("{}{}", listed.url("/to/"), listed.url("/to/itself"));
    assert_refused(&home, &tinaja, "/m/to/itself", "to itself");
    assert_refused(&home, &tinaja, &format!("/m/to/{circle}"), "to itself");
    let asked = listed.count();
    assert_refused(&home, &tinaja, &format!("/m/to/{}", listed.url("/more")), "more than 5 times");
    assert_eq!(listed.count(), asked + 5);
    for (to, why) in [
        (other.url("/x"), "not in hosts"),
        ("http://169.254.169.254/latest/meta-data".to_owned(), "not in hosts"),
        ("http://127.0.0.1.evil.example/".to_owned(), "not in hosts"),
        ("ftp://127.0.0.1/".to_owned(), "no URL of HTTP"),
        ("userinfo".to_owned(), "no URL of HTTP"),
        ("escapes".to_owned(), "no URL of HTTP"),
        ("nowhere".to_owned(), "without saying where"),
    ] {
        assert_refused(&home, &tinaja, &format!("/m/to/{to}"), why);
    }
    assert_refused(&home, &tinaja, &format!("/m/~/http-{}/127.0.0.1/x", other.address.port()), "");
    assert_eq!(other.count(), 0, "nobody went there");
    assert_eq!(get("/m/y").text(), "here", "it serves on");
}

#[test]
fn a_listed_host_with_a_private_address_needs_a_rule() {
    let (source, listed) = (redirecting(), redirecting());
    let mut home = Home::new();
    mirror(&mut home, &source, &format!("hosts = [\"{}\"]\n", listed.url("")));
    // Nothing opens loopback: the source itself may be there, as its operator says, and no other host.
    let tinaja = home.start("");
    assert_eq!(get(home.listen, "/m/x").unwrap().text(), "here");
    assert_refused(&home, &tinaja, &format!("/m/to/{}", listed.url("/x")), "a loopback address");
    assert_refused(&home, &tinaja, &format!("/m/~/http-{}/127.0.0.1/x", listed.address.port()), "a loopback address");
    assert_eq!(listed.count(), 0);
}

#[test]
fn a_longer_body_is_passed_as_it_is_or_refused() {
    let link = "{\"a\":\"http://127.0.0.1:9/x\"}";
    for chunked in [false, true] {
        let source = Origin::closing(move |_, stream| {
            use std::io::Write;
            let fields =
                "Content-Type: application/json\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\nConnection: close\r\n";
            let length = link.len();
            match chunked {
                false => write!(stream, "HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{link}"),
                true => write!(
                    stream,
                    "HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{link}\r\n0\r\n\r\n"
                ),
            }
        });
        for (limit, unrewritten, expected) in [("1KiB", "refuse", "~/"), ("10B", "pass", link), ("10B", "refuse", "")] {
            let mut home = Home::new();
            let set = format!("rewrite_limit = \"{limit}\"\nunrewritten = \"{unrewritten}\"\n");
            mirror(&mut home, &source, &format!("hosts = [\"http://127.0.0.1:9\"]\n{set}"));
            let tinaja = home.start(FORWARD);
            let answer = get(home.listen, "/m/x");
            match (expected, answer) {
                ("", Ok(answer)) if answer.status == 200 => panic!("{}", answer.text()),
                ("", _) => eventually("the log says why", || tinaja.output().contains("rewrite_limit")),
                (expected, Ok(answer)) => assert!(answer.text().contains(expected), "{limit}: {}", answer.text()),
                (_, Err(error)) => panic!("{limit} {unrewritten}: {error}"),
            }
        }
    }
}

#[test]
fn credentials_go_to_the_source_alone() {
    let (source, listed) = (redirecting(), redirecting());
    let mut home = Home::new();
    fs::write(home.path("secret"), "basic user:open sesame\n").unwrap();
    fs::set_permissions(home.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let file = home.path("secret").display().to_string();
    let hosts = format!("hosts = [\"{}\"]\ncredentials = \"{file}\"\n", listed.url(""));
    mirror(&mut home, &source, &format!("{hosts}clients = \"127.0.0.1\"\n"));
    let mut tinaja = home.start(FORWARD);
    let answer = get_with(
        home.listen,
        &format!("/m/to/{}", listed.url("/x")),
        "Authorization: Basic b3RoZXI6Cg==\r\nCookie: a\r\n",
    );
    assert_eq!(answer.unwrap().text(), "here");
    assert_eq!(source.requests()[0].field("authorization").unwrap(), "Basic dXNlcjpvcGVuIHNlc2FtZQ==");
    assert_eq!((source.requests()[0].field("cookie"), listed.requests()[0].field("authorization")), (None, None));
    // By a name that anybody could have made to lead here it is not found.
    let mut client = Client::connect(home.listen);
    client.send("GET /m/x HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!((client.read("GET").unwrap().status, source.count()), (403, 1));
    // It only reads, and what it fetched is not the forward proxy's.
    let mut client = Client::connect(home.listen);
    client.send("POST /m/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
    let posted = client.read("POST").unwrap();
    assert_eq!((posted.status, source.count()), (405, 1));
    assert_eq!(get(home.listen, "/m/y").unwrap().text(), "here");
    assert!(!get(home.listen, &source.url("/y")).unwrap().is_hit(), "others are not given what it was given");
    assert!(!tinaja.output().contains("sesame") && !tinaja.output().contains("dXNlcjpv"));
    tinaja.terminate();
    // For others it is not.
    mirror(&mut home, &source, &format!("{hosts}clients = \"192.0.2.0/24\"\n"));
    let tinaja = home.start(FORWARD);
    assert_refused(&home, &tinaja, "/m/y", "is for other clients");
    drop(tinaja);
    for (mode, set, why) in [
        (0o600, "", "needs clients"),
        (0o644, "clients = \"127.0.0.1\"\n", "chmod 600"),
        (0o640, "clients = \"127.0.0.1\"\n", "chmod 600"),
    ] {
        fs::set_permissions(home.path("secret"), fs::Permissions::from_mode(mode)).unwrap();
        mirror(&mut home, &source, &format!("{hosts}{set}"));
        let refused = output(&mut home.command(FORWARD));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(why) && !said.contains("sesame"), "{said}");
    }
}
