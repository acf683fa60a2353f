//! Settings that are exchanged while the server serves: by SIGHUP and by `tinaja reload`; and those that are refused.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Signal;

use crate::support::home::{Home, reverse, telling};
use crate::support::tinaja::binary;
use tinaja_testkit::port::free_port;
use tinaja_testkit::tools::{client, output, run};
use tinaja_testkit::wait::eventually;

/// `tinaja reload`: whether it went well, and what it said.
fn reload(home: &Home) -> (bool, String) {
    let mut reload = binary(&home.dir);
    let Output { status, stdout, stderr } = output(reload.args(["reload", "--cache"]).arg(home.path("cache")));
    (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

#[test]
fn certificates_and_rules_are_exchanged() {
    let origin = telling();
    let mut home = Home::new();
    let first = home.certificate("first", "DNS:www.test");
    let tinaja = home.start(&reverse(&origin));
    assert_eq!(home.curl(&first.authority, "www.test", "/", &[]).0, 200);
    // The new certificate in the place of the old, by SIGHUP: nobody who trusts the first authority alone comes in.
    home.listener.clear();
    let second = home.certificate("second", "DNS:www.test");
    for (new, old) in [(&second.certificate, &first.certificate), (&second.key, &first.key)] {
        fs::copy(new, old).unwrap();
    }
    tinaja.signal(Signal::HUP);
    eventually("the new certificate", || {
        let mut curl = client("curl", home.dir.path());
        let port = home.listen.port();
        curl.args(["-sS", "--cacert"]).arg(&second.authority);
        curl.args(["--resolve", &format!("www.test:{port}:127.0.0.1"), &format!("https://www.test:{port}/")]);
        output(&mut curl).status.success()
    });
    eventually("it is logged", || tinaja.output().contains("reloaded the settings"));
    // What was stored is there.
    assert!(home.curl(&second.authority, "www.test", "/", &[]).2);
    // A rule more, by the command; and settings that wait.
    let rule = format!("{}\n[[listener.rule]]\naction = \"deny\"\nmethod = \"GET\"", reverse(&origin));
    let _ = home.command(&rule);
    let text = fs::read_to_string(home.path("tinaja.toml")).unwrap();
    fs::write(
        home.path("tinaja.toml"),
        text.replace("head = \"10s\"", "head = \"11s\"").replace("\"8MiB\"", "\"9MiB\""),
    )
    .unwrap();
    let (done, said) = reload(&home);
    assert!(done && said.contains("wait for the next start: memory, limits"), "{said}");
    assert_eq!(home.curl(&second.authority, "www.test", "/", &[]).0, 403);
    assert_eq!(home.curl(&second.authority, "www.test", "/", &["-I"]).0, 200);
}

#[test]
fn settings_of_no_use_are_refused_and_those_from_before_serve_on() {
    let origin = telling();
    let mut home = Home::new();
    let www = home.certificate("www", "DNS:www.test");
    let mut tinaja = home.start(&reverse(&origin));
    let file = home.path("tinaja.toml");
    let good = fs::read_to_string(&file).unwrap();
    let port = home.listen.port().to_string();
    for (bad, why) in [
        (good.replace("mode = ", "mood = "), "unknown field `mood`"),
        (good.replace(".pem", ".gone"), "server.gone"),
        (good.replace(&port, "1"), "cannot change while it runs"),
        (good.replace("origin = ", "#origin = "), "line 8"),
        (format!("{good}\n[[listener]]\naddress = \"127.0.0.1:0\"\n"), "127.0.0.1:0"),
        (String::from("\u{0}"), "is not a valid configuration file"),
    ] {
        fs::write(&file, &bad).unwrap();
        let (done, said) = reload(&home);
        assert!(!done && said.contains(why) && said.contains("the old settings stay in use"), "{why}: {said}");
        tinaja.signal(Signal::HUP);
        assert_eq!(home.curl(&www.authority, "www.test", "/", &[]).0, 200, "{why}");
    }
    eventually("it is logged", || tinaja.output().contains("could not reload the settings"));
    fs::remove_file(&file).unwrap();
    let (done, said) = reload(&home);
    assert!(!done && said.contains("cannot read the configuration file"), "{said}");
    fs::write(&file, &good).unwrap();
    assert!(reload(&home).0);
    assert!(tinaja.terminate().success(), "{}", tinaja.output());
    let (done, said) = reload(&home);
    assert!(!done && said.contains("no server runs on this cache"), "{said}");
}

#[test]
fn no_request_fails_across_reloads() {
    let origin = telling();
    let mut home = Home::new();
    let www = home.certificate("www", "DNS:www.test");
    let plain = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mode =
        format!("{}\n{}\n[[listener]]\naddress = \"{plain}\"\n{}", reverse(&origin), home.listener, reverse(&origin));
    home.listener.clear();
    let _tinaja = home.start(&mode);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (stop, answered) = (&stop, &answered);
            scope.spawn(move || {
                let mut stream = TcpStream::connect(plain).unwrap();
                while !stop.load(Ordering::SeqCst) {
                    let request = format!("GET /{number} HTTP/1.1\r\nHost: www.test\r\n\r\n");
                    stream.write_all(request.as_bytes()).unwrap();
                    let mut answer = Vec::new();
                    while !answer.ends_with(b"x-forwarded-proto: http") {
                        let mut some = [0; 1024];
                        let read = stream.read(&mut some).unwrap();
                        assert!(read > 0, "closed after {}", answer.escape_ascii());
                        answer.extend_from_slice(&some[..read]);
                    }
                    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", answer.escape_ascii());
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..5 {
            let mut h2load = client("h2load", home.dir.path());
            h2load.args(["-n", "500", "-c", "4", "-m", "10", "--connect-to", &home.listen.to_string()]);
            let load = scope.spawn(move || run(h2load.arg("https://www.test/load")));
            assert!(reload(&home).0);
            let said = load.join().unwrap();
            assert!(said.contains("500 succeeded, 0 failed, 0 errored"), "{said}");
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(answered.load(Ordering::SeqCst) > 100);
    assert!(home.curl(&www.authority, "www.test", "/load", &[]).0 == 200);
}
