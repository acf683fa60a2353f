//! Which listeners serve mirrors, and by what: TLS and HTTP/2, a reverse proxy with sites of its own, requests that are not for the
//! cache.

use crate::support::home::Home;
use tinaja_testkit::client::{Client, get};
use tinaja_testkit::origin::{Origin, reply};

/// A source whose index links to itself.
fn source() -> Origin {
    Origin::start(|request, stream| {
        if request.method == "POST" {
            return reply(stream, request, 200, "", &request.body);
        }
        let host = request.field("host").unwrap();
        let body = format!("{{\"url\":\"http://{host}/file\",\"path\":\"{}\"}}", request.path);
        reply(stream, request, 200, "Content-Type: application/json\r\nCache-Control: max-age=600\r\n", body.as_bytes())
    })
}

fn mirror(source: &Origin, public: &str) -> String {
    format!("public_url = \"{public}\"\n[[mirror]]\npath = \"/m/\"\norigin = \"{}\"\n", source.url("/"))
}

#[test]
fn by_tls_and_http2_from_a_reverse_proxy_that_has_nothing_else() {
    let source = source();
    let mut home = Home::new();
    let here = home.certificate("here", "DNS:localhost");
    home.top = mirror(&source, &format!("https://localhost:{}", home.listen.port()));
    let _tinaja = home.start("mode = \"reverse\"");
    for (version, flags, hit) in [("2", "--http2", false), ("2", "--http2", true), ("1.1", "--http1.1", true)] {
        let (status, spoken, was_hit, body) = home.curl(&here.authority, "localhost", "/m/x", &[flags]);
        assert_eq!((status, spoken.as_str(), was_hit), (200, version, hit), "{body}");
        assert!(body.contains(&format!("https://localhost:{}/m/file", home.listen.port())), "{body}");
    }
    assert_eq!(home.curl(&here.authority, "localhost", "/other", &[]).0, 404);
    assert_eq!(source.count(), 1);
}

#[test]
fn sites_with_routes_of_their_own_keep_their_paths() {
    let (source, site, rest) = (source(), Origin::fixed("", "site"), Origin::fixed("", "rest"));
    let mut home = Home::new();
    home.top = mirror(&source, "http://cache.example");
    let route = format!("[[listener.route]]\nhost = \"site.example\"\norigin = \"{}\"\n", site.url(""));
    let _tinaja = home.start(&format!("mode = \"reverse\"\norigin = \"{}\"\n{route}", rest.url("")));
    let ask = |host: &str, path: &str| {
        let mut client = Client::connect(home.listen);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read("GET").unwrap().text()
    };
    assert_eq!(ask("site.example", "/m/x"), "site");
    assert_eq!(ask("other.example", "/x"), "rest");
    assert!(ask("other.example", "/m/x").contains("http://cache.example/m/file"), "whatever Host is said");
}

/// As of git, whose smart fetch is a POST.
#[test]
fn what_is_not_for_the_cache_passes_as_it_is() {
    let source = source();
    let mut home = Home::new();
    home.top = mirror(&source, "http://cache.example");
    let _tinaja = home.start("");
    let body = format!("\"{}\"", source.url("/file"));
    for round in 1..3 {
        let mut client = Client::connect(home.listen);
        let length = body.len();
        client.send(format!("POST /m/git-upload-pack HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"));
        let answer = client.read("POST").unwrap();
        assert_eq!((answer.status, answer.text(), source.count()), (200, body.clone(), round));
    }
    // And what asks for no cache is rewritten all the same.
    assert!(get(home.listen, "/m/x").unwrap().text().contains("http://cache.example/m/file"));
}
