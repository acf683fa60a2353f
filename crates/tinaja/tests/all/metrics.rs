//! Figures for Prometheus, and health: asked for as a scraper does.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::home::{Home, reverse, telling};
use tinaja_testkit::port::free_port;
use tinaja_testkit::tools::{client, run};

/// What `GET /path` brings: its status, and its body.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// Each series with its value.
pub fn scrape(address: SocketAddr) -> BTreeMap<String, f64> {
    let (status, text) = get(address, "/metrics");
    assert_eq!(status, 200);
    let series = text.lines().filter(|line| !line.starts_with('#'));
    series
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.into(), value.parse().unwrap()))
        .collect()
}

/// Scrapes until a figure is what it should become: what is counted is counted behind the answer.
fn scrape_until(address: SocketAddr, name: &str, value: f64) -> BTreeMap<String, f64> {
    for _ in 0..500 {
        let figures = scrape(address);
        if figures[name] >= value {
            return figures;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{name} has not become {value} within 10 s");
}

#[test]
fn what_happens_is_counted() {
    let origin = telling();
    let mut home = Home::new();
    let www = home.certificate("www", "DNS:www.test");
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    // Above the listener: it is no setting of one.
    home.top = format!("metrics = \"{metrics}\"\n");
    let tinaja = home.start(&reverse(&origin));
    // Whoever waited for it to listen has connected, and left without a handshake.
    let failed = "tinaja_tls_failed_handshakes_total";
    let before = scrape_until(metrics, failed, 1.0);
    for path in ["/a", "/a", "/b", "/a"] {
        assert_eq!(home.curl(&www.authority, "www.test", path, &[]).0, 200);
    }
    assert_eq!(home.curl(&www.authority, "www.test", "/", &["-H", "Cache-Control: only-if-cached"]).0, 504);
    let mut garbage = TcpStream::connect(home.listen).unwrap();
    garbage.write_all(b"no TLS at all, and long enough to be seen for what it is\r\n\r\n").unwrap();
    let _ = garbage.read_to_end(&mut Vec::new());
    scrape_until(metrics, failed, before[failed] + 1.0);
    scrape_until(metrics, "tinaja_store_stored_objects_total", 2.0);
    // Those that the origin was asked for are counted last, behind their answers.
    let [misses, pages] =
        ["origin", "proxy"].map(|from| format!("tinaja_request_duration_seconds_count{{source=\"{from}\"}}"));
    scrape_until(metrics, &pages, before[&pages] + 1.0);
    scrape_until(metrics, &misses, before[&misses] + 2.0);
    let hits = "tinaja_requests_total{result=\"hit\",status=\"2xx\"}";
    let after = scrape_until(metrics, hits, before[hits] + 2.0);
    let grown = |name: &str| after[name] - before[name];
    assert_eq!(grown("tinaja_requests_total{result=\"miss\",status=\"2xx\"}"), 2.0);
    assert_eq!(grown("tinaja_requests_total{result=\"hit\",status=\"2xx\"}"), 2.0);
    assert_eq!(grown("tinaja_requests_total{result=\"miss\",status=\"5xx\"}"), 1.0);
    assert_eq!((grown(&misses), grown(&pages)), (2.0, 1.0));
    let stored =
        ["memory", "disk", "fill"].map(|from| format!("tinaja_request_duration_seconds_count{{source=\"{from}\"}}"));
    assert_eq!(stored.iter().map(|name| grown(name)).sum::<f64>(), 2.0);
    let body = "x-forwarded-proto: https".len() as f64;
    assert_eq!(grown("tinaja_sent_bytes_total{source=\"origin\"}"), 2.0 * body);
    assert_eq!(grown("tinaja_fetched_bytes_total"), 2.0 * body);
    assert_eq!(grown("tinaja_fetches_total{status=\"2xx\"}"), 2.0);
    assert_eq!(grown("tinaja_fetch_duration_seconds_count"), 2.0);
    assert_eq!(grown(failed), 1.0);
    assert_eq!(grown("tinaja_store_stored_objects_total"), 2.0);
    assert!(after["tinaja_store_slots"] > 0.0 && after["tinaja_store_capacity_bytes"] > 1e7);
    assert!(after["tinaja_connections"] <= 2.0, "{}", after["tinaja_connections"]);
    // However many URLs and clients there are, there are no more series.
    let mut many = client("curl", home.dir.path());
    many.args(["-sSk", "--noproxy", "", "-o", "/dev/null", &format!("https://{}/[1-200]", home.listen)]);
    run(&mut many);
    assert_eq!(scrape(metrics).len(), before.len());
    assert!(before.len() < 500, "{}", before.len());
    drop(tinaja);
}

#[test]
fn health_and_hostile_questions() {
    let origin = telling();
    let mut home = Home::new();
    home.certificate("www", "DNS:www.test");
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    home.top = format!("metrics = \"{metrics}\"\n");
    let mut tinaja = home.start(&reverse(&origin));
    assert_eq!(get(metrics, "/healthz"), (200, "ok\n".into()));
    assert_eq!(get(metrics, "/readyz?x"), (200, "ready\n".into()));
    assert_eq!(get(metrics, "/other").0, 404);
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".to_owned(), "405"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
        (format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000)), "400"),
    ] {
        let mut stream = TcpStream::connect(metrics).unwrap();
        // It may answer, and close, before it has read all of that.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(format!("HTTP/1.1 {status}").as_bytes()), "{answer:?}");
    }
    let silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(metrics).unwrap()).collect();
    assert_eq!(get(metrics, "/healthz").0, 200);
    drop(silent);
    // The address is the proxy's from the start: another one cannot have it.
    let second = tinaja_testkit::tools::output(&mut home.command(&reverse(&origin)));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && !said.contains("panicked"), "{said}");
    assert!(tinaja.terminate().success(), "{}", tinaja.output());
}
