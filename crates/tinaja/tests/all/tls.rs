//! TLS with clients: real ones, over HTTP/1.1 and HTTP/2, certificates by name, and those that are of no use.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::home::{Home, reverse, telling};
use crate::support::tinaja::binary;
use tinaja_testkit::port::free_port;
use tinaja_testkit::tools::{client, output, run};
use tinaja_testkit::wait::eventually;

#[test]
fn curl_and_h2load_over_both_versions() {
    let origin = telling();
    let mut home = Home::new();
    let www = home.certificate("www", "DNS:www.test");
    let mut tinaja = home.start(&reverse(&origin));
    for (args, version) in [(["--http1.1"], "1.1"), (["--http2"], "2"), (["--tls-max=1.2"], "2")] {
        let args: Vec<&str> = args[0].split('=').collect();
        let path = format!("/{version}{}", args[0]);
        for hit in [false, true] {
            let (status, spoken, was_hit, body) = home.curl(&www.authority, "www.test", &path, &args);
            assert_eq!((status, spoken.as_str(), was_hit), (200, version, hit), "{args:?}");
            assert_eq!(body, "x-forwarded-proto: https");
        }
    }
    // Not with an authority that the client does not trust.
    let refused = output(client("curl", home.dir.path()).args(["-sS", &format!("https://{}/", home.listen)]));
    assert_eq!(refused.status.code(), Some(60), "{refused:?}");
    for args in [&["-m", "20"][..], &["--h1"]] {
        let mut h2load = client("h2load", home.dir.path());
        h2load.args(["-n", "2000", "-c", "8"]).args(args);
        h2load.args(["--connect-to", &home.listen.to_string(), "https://www.test/load"]);
        let said = run(&mut h2load);
        assert!(said.contains("2000 succeeded, 0 failed, 0 errored"), "{said}");
    }
    let log = || fs::read_to_string(home.path("access.log")).unwrap();
    eventually("it is logged", || log().contains("https://www.test/load"));
    assert!(tinaja.terminate().success(), "{}", tinaja.output());
}

#[test]
fn the_name_decides_which_certificate_and_which_hosts() {
    let origin = telling();
    let mut home = Home::new();
    let www = home.certificate("www", "DNS:www.test,DNS:*.cdn.test");
    let shop = home.certificate("shop", "DNS:shop.test");
    let _tinaja = home.start(&reverse(&origin));
    for version in ["--http1.1", "--http2"] {
        for (authority, name) in [
            (&www.authority, "www.test"),
            (&www.authority, "WWW.test"),
            (&www.authority, "a.cdn.test"),
            (&shop.authority, "shop.test"),
        ] {
            assert_eq!(home.curl(authority, name, "/", &[version]).0, 200, "{name}");
        }
        // One name's connection and another's host: the client may take one site's answers for the other's.
        for (host, status) in
            [("www.test", 200), ("b.cdn.test", 200), ("shop.test", 421), ("SHOP.TEST.", 421), ("unknown.test", 200)]
        {
            let field = format!("Host: {host}");
            let (said, _, hit, _) = home.curl(&www.authority, "www.test", "/", &[version, "-H", &field]);
            assert_eq!((said, hit && status != 200), (status, false), "{host} {version}");
        }
        let unknown = home.curl(&shop.authority, "shop.test", "/", &[version, "-H", "Host: unknown.test"]);
        assert_eq!(unknown.0, 421, "what no certificate is for is the first one's");
    }
    // A client that names nobody gets the first, and any host.
    let (port, www) = (home.listen.port(), www.authority.display().to_string());
    let mut nameless = client("curl", home.dir.path());
    nameless.args(["-sSk", "--noproxy", "", "-w", "%{http_code}", "-o", "/dev/null", "--cacert", &www]);
    assert_eq!(run(nameless.arg(format!("https://127.0.0.1:{port}/"))), "200");
}

#[test]
fn what_came_by_tls_is_kept_apart() {
    let origin = telling();
    let mut home = Home::new();
    let www = home.certificate("www", "DNS:www.test");
    let plain = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let both =
        format!("{}\n{}\n[[listener]]\naddress = \"{plain}\"\n{}", reverse(&origin), home.listener, reverse(&origin));
    home.listener.clear();
    let _tinaja = home.start(&both);
    let plain = |home: &Home| {
        let mut curl = client("curl", home.dir.path());
        run(curl.args(["-sS", "-H", "Host: www.test", &format!("http://{plain}/")]))
    };
    for _ in 0..2 {
        assert_eq!(home.curl(&www.authority, "www.test", "/", &[]).3, "x-forwarded-proto: https");
        assert_eq!(plain(&home), "x-forwarded-proto: http");
    }
    assert_eq!(origin.paths().len(), 2, "each is a hit by itself");
    // One purge forgets both.
    let mut purge = binary(&home.dir);
    run(purge
        .args(["purge", "--cache"])
        .arg(home.path("cache"))
        .arg(format!("https://www.test:{}/", home.listen.port())));
    run(binary(&home.dir).args(["purge", "--cache"]).arg(home.path("cache")).arg("http://www.test/"));
    assert_eq!(home.curl(&www.authority, "www.test", "/", &[]).3, "x-forwarded-proto: https");
    assert_eq!(plain(&home), "x-forwarded-proto: http");
    assert_eq!(origin.paths().len(), 4);
}

#[test]
fn handshakes_that_never_come_hold_up_nobody() {
    let origin = telling();
    let mut home = Home::new();
    home.head = "3s";
    let www = home.certificate("www", "DNS:www.test");
    let _tinaja = home.start(&reverse(&origin));
    let mut silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(home.listen).unwrap()).collect();
    let mut plain = TcpStream::connect(home.listen).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: www.test\r\n\r\n").unwrap();
    let mut said = Vec::new();
    // An alert, or nothing; and the end.
    let _ = plain.read_to_end(&mut said);
    assert!(said.len() < 16 && !said.starts_with(b"HTTP"), "{}", said.escape_ascii());
    assert_eq!(home.curl(&www.authority, "www.test", "/", &[]).0, 200);
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "closed, once its time is over");
    }
    assert_eq!(origin.paths().len(), 1);
}

#[test]
fn a_forward_proxy_behind_tls() {
    let origin = telling();
    let mut home = Home::new();
    let proxy = home.certificate("proxy", "DNS:proxy.test");
    let _tinaja = home.start("allow_destination = \"127.0.0.0/8\"");
    let port = home.listen.port();
    for hit in [false, true] {
        let mut curl = client("curl", home.dir.path());
        curl.args(["-sS", "--noproxy", "", "-w", " %{http_code} %header{cache-status}", "--proxy-cacert"]);
        curl.arg(&proxy.authority).args(["--resolve", &format!("proxy.test:{port}:127.0.0.1")]);
        let said = run(curl.args(["--proxy", &format!("https://proxy.test:{port}"), &origin.url("/x")]));
        assert!(said.starts_with("nothing 200"), "{said}");
        assert_eq!(tinaja_testkit::client::says_hit(&said), hit, "{said}");
    }
}

#[test]
fn certificates_of_no_use_are_refused_with_the_reason() {
    let make = |days: &str| {
        let mut home = Home::new();
        let good = home.certificate("good", "DNS:good.test");
        home.listener.clear();
        let old = home.path("old.pem");
        let mut openssl = Command::new("faketime");
        openssl.args([
            days,
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ]);
        openssl.args(["-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=DNS:x.test", "-keyout"]);
        run(openssl.arg(home.path("old.key")).arg("-out").arg(&old));
        (home, good, old)
    };
    let checked = |home: &Home| {
        let Output { status, stdout, stderr } = output(home.command("").arg("--check"));
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    };
    let (mut home, good, old) = make("10 days ago");
    let mut refused = |certificate: &Path, key: &Path, words: &[&str]| {
        home.listener.clear();
        home.add(certificate, key);
        let (code, said) = checked(&home);
        assert_eq!(code, Some(1), "{said}");
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(said.contains(&home.listen.to_string()), "{said}");
    };
    let (missing, empty) = (old.with_file_name("missing.pem"), old.with_file_name("empty.pem"));
    fs::write(&empty, "no certificate\n").unwrap();
    refused(&missing, &good.key, &["missing.pem", "No such file", "check the path"]);
    refused(&good.certificate, &missing, &["missing.pem", "No such file"]);
    refused(&empty, &good.key, &["empty.pem", "no certificate in PEM"]);
    refused(&good.certificate, &good.certificate, &["server.pem", "no private key in PEM"]);
    refused(&good.certificate, &old.with_extension("key"), &["old.key is not the key of", "server.pem"]);
    refused(&old, &old.with_extension("key"), &["old.pem has expired", "put the new one there"]);
    refused(&good.authority, &good.authority.with_extension("key"), &["ca.pem", "for no name"]);
    let (mut home, _, early) = make("+10 days");
    home.add(&early, &early.with_extension("key"));
    let (code, said) = checked(&home);
    assert!(code == Some(1) && said.contains("is not valid before"), "{said}");
    // Two for one name, and none that lacks its key.
    let (mut home, good, _) = make("now");
    home.add(&good.certificate, &good.key);
    assert_eq!(checked(&home).0, Some(0), "{}", checked(&home).1);
    home.add(&good.certificate, &good.key);
    let (code, said) = checked(&home);
    assert!(code == Some(1) && said.contains("both for good.test"), "{said}");
    home.listener = "[[listener.certificate]]\nfile = \"x\"\n".into();
    let (code, said) = checked(&home);
    assert!(code == Some(1) && said.contains("missing field `key`"), "{said}");
}
