//! Text that curl gets compressed, by HTTP/1.1 and HTTP/2, from a server that is told so by a configuration file.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::support::home::{Home, reverse};
use crate::support::tinaja::binary;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::port::free_port;
use tinaja_testkit::tools::{client, output, run};
use tinaja_testkit::wait::eventually;

const RULE: &str = "[[cache_rule]]\npath = \"*.css\"\nencode = [\"zstd\", \"br\", \"gzip\"]\n";

fn text() -> String {
    (0..3000).map(|line| format!(".class-{line} {{ margin: {}px auto; }}\n", line % 17)).collect()
}

fn styles() -> Origin {
    Origin::start(|request, stream| {
        let fields = "Content-Type: text/css\r\nCache-Control: max-age=6000\r\nETag: \"1\"\r\n";
        reply(stream, request, 200, fields, text().as_bytes())
    })
}

/// What curl is told, and how many bytes it got for it. It has taken them apart by itself.
fn curl(home: &Home, authority: &std::path::Path, accepted: &str, more: &[&str]) -> (String, String, usize) {
    let (port, got) = (home.listen.port(), home.path("got"));
    let mut curl: Command = client("curl", home.dir.path());
    curl.args(["-sS", "--compressed", "--noproxy", "", "-H", &format!("Accept-Encoding: {accepted}")]).args(more);
    curl.args(["-w", "%{http_version} %header{content-encoding} %{size_download}"]);
    curl.arg("-o").arg(&got).arg("--cacert").arg(authority);
    curl.args(["--resolve", &format!("www.example:{port}:127.0.0.1"), &format!("https://www.example:{port}/a.css")]);
    let said = run(&mut curl);
    assert!(fs::read_to_string(&got).unwrap() == text(), "{accepted}: {said}");
    let words: Vec<&str> = said.split(' ').collect();
    (words[0].to_owned(), words[1].to_owned(), words[2].parse().unwrap())
}

/// A figure of the metrics, by the name of its series.
pub fn figure(metrics: SocketAddr, series: &str) -> f64 {
    let text = get(metrics, "/metrics").unwrap().text();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
    line.unwrap_or_else(|| panic!("{series} in {text}"))
}

#[test]
fn curl_gets_what_it_wants() {
    let (origin, metrics) = (styles(), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let mut home = Home::new();
    let made = home.certificate("www", "DNS:www.example");
    home.listener += RULE;
    home.top = format!("metrics = \"{metrics}\"\n");
    let tinaja = home.start(&reverse(&origin));
    for (version, flag) in [("1.1", "--http1.1"), ("2", "--http2")] {
        for coding in ["zstd", "br", "gzip"] {
            let mut last = (String::new(), String::new(), 0);
            eventually("it comes encoded", || {
                last = curl(&home, &made.authority, coding, &[flag]);
                last.1 == coding
            });
            assert!(last.0 == version && last.2 < text().len() / 4, "{last:?}");
        }
        let plain = curl(&home, &made.authority, "identity", &[flag]);
        assert_eq!(plain, (version.to_owned(), String::new(), text().len()));
    }
    assert_eq!(origin.count(), 1);
    for coding in ["zstd", "br", "gzip"] {
        let of = |name: &str| figure(metrics, &format!("tinaja_{name}{{coding=\"{coding}\"}}"));
        let result = |what: &str| {
            figure(metrics, &format!("tinaja_encoded_objects_total{{coding=\"{coding}\",result=\"{what}\"}}"))
        };
        assert_eq!(["stored", "not_smaller", "failed", "left_out"].map(result), [1.0, 0.0, 0.0, 0.0], "{coding}");
        assert_eq!(of("encoder_in_bytes_total"), text().len() as f64);
        assert!(of("encoder_out_bytes_total") > 0.0 && of("encoder_out_bytes_total") < text().len() as f64 / 4.0);
        assert!(of("encoded_hits_total") >= 2.0);
    }
    // What there is stands in what `explain` says.
    let url = format!("https://www.example:{}/a.css", home.listen.port());
    let explained = run(binary(&home.dir).args(["explain", &url, "--cache"]).arg(home.path("cache")));
    for part in ["also as zstd of ", "also as br of ", "also as gzip of ", "a GET now a hit"] {
        assert!(explained.contains(part), "{part} in {explained}");
    }
    // A purge through the server leaves nothing of it, and without the rule nothing is encoded any more.
    run(binary(&home.dir).args(["purge", &url, "--cache"]).arg(home.path("cache")));
    home.listener = home.listener.replace(RULE, "");
    let _ = home.command(&reverse(&origin));
    tinaja.signal(Signal::HUP);
    eventually("the rule is gone", || tinaja.output().contains("reloaded the settings"));
    for _ in 0..3 {
        assert_eq!(curl(&home, &made.authority, "br", &[]).1, "");
    }
    assert_eq!(origin.requests()[1].field("accept-encoding").as_deref(), Some("br"));
}

/// A rule that would do nothing is told, and is no error: hosts may be named later.
#[test]
fn a_rule_without_hosts_at_a_forward_proxy_is_told() {
    let mut home = Home::new();
    for (rule, told) in [(RULE.to_owned(), true), (format!("{RULE}host = \"*.example\"\n"), false)] {
        home.listener = rule;
        let Output { status, stdout, .. } = output(home.command("mode = \"forward\"").arg("--check"));
        let said = String::from_utf8(stdout).unwrap();
        assert!(status.success() && said.contains("has encode and no host") == told, "{said}");
        if told {
            assert!(said.contains("cache rule 1 (line 10)"), "{said}");
            let tinaja = home.start("mode = \"forward\"");
            eventually("it is said", || tinaja.output().contains("has encode and no host"));
        }
    }
}
