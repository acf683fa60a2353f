//! Links over pieces of every size, and what only looks like one.

use std::sync::Arc;

use super::*;
use crate::mirrors::{Mirror, Mounted, Table};
use crate::origin::Destination;

fn links(origin: &str) -> Links {
    let hosts = ["files.example.org", "*.cdn.example.org", "http://plain.example.org:8080"];
    let mirror = Mirror {
        hosts: hosts.map(|host| host.parse().unwrap()).into(),
        ..Mirror::new("/m/".into(), origin.parse().unwrap())
    };
    let page = mirror.origin.server.destination();
    let mounted = Arc::new(Mounted::new(mirror, Some(&"http://cache:3128".parse().unwrap()), Table::new([0; 32])));
    Links::new(&mounted.at(true), &page).unwrap()
}

/// The body in pieces of each size, which must all come to the same.
fn rewritten(links: &Links, form: Form, body: &str) -> String {
    let whole = in_pieces(links, form, body, body.len().max(1));
    for size in 1..body.len().min(300) {
        assert_eq!(in_pieces(links, form, body, size), whole, "pieces of {size} bytes of {body}");
    }
    whole
}

fn in_pieces(links: &Links, form: Form, body: &str, size: usize) -> String {
    let mut rewriter = Rewriter::new(links.clone(), form);
    let mut out = Vec::new();
    for piece in body.as_bytes().chunks(size) {
        out.extend(rewriter.push(piece));
        assert!(rewriter.held.len() <= 1 + 16 + MOST_AUTHORITY + 64, "{} bytes are held", rewriter.held.len());
    }
    out.extend(rewriter.end());
    String::from_utf8(out).unwrap()
}

#[test]
fn links_of_json() {
    let links = links("https://index.example.org/api/");
    for (body, expected) in [
        (r#"{"a":"https://files.example.org/x"}"#, r#"{"a":"http://cache:3128/m/~/https/files.example.org/x"}"#),
        (r#"{"a":"https:\/\/files.example.org\/x"}"#, r#"{"a":"http://cache:3128/m/~/https/files.example.org\/x"}"#),
        (r#"["https://files.example.org"]"#, r#"["http://cache:3128/m/~/https/files.example.org"]"#),
        (r#"["https://files.example.org:443/"]"#, r#"["http://cache:3128/m/~/https/files.example.org/"]"#),
        (r#"["https://a.b.cdn.example.org/?x"]"#, r#"["http://cache:3128/m/~/https/a.b.cdn.example.org/?x"]"#),
        (r#"["http://plain.example.org:8080/"]"#, r#"["http://cache:3128/m/~/http-8080/plain.example.org/"]"#),
        (r#"["https://index.example.org/api/x"]"#, r#"["http://cache:3128/m/x"]"#),
        (r#"["https:\/\/index.example.org\/api\/x"]"#, r#"["http://cache:3128/m/x"]"#),
        (
            r#"["https://files.example.org/{a}","https://files.example.org/b"]"#,
            r#"["http://cache:3128/m/~/https/files.example.org/{a}","http://cache:3128/m/~/https/files.example.org/b"]"#,
        ),
    ] {
        assert_eq!(rewritten(&links, Form::Json, body), expected);
    }
}

#[test]
fn what_only_looks_like_a_link() {
    let links = links("https://index.example.org/api/");
    for body in [
        r#"["https://files.example.org.evil/"]"#,
        r#"["https://files.example.org@evil/"]"#,
        r#"["https://xfiles.example.org/"]"#,
        r#"["https://cdn.example.org/"]"#,
        r#"["https://files.example.org:444/"]"#,
        r#"["http://files.example.org/"]"#,
        r#"["https://index.example.org/other"]"#,
        r#"["https://index.example.org/apix"]"#,
        r#"["https://index.example.org"]"#,
        r#"["see https://files.example.org/"]"#,
        r#"["a\"https://files.example.org/\""]"#,
        r#"["https://files.example.org\u002fx"]"#,
        r#"["https:/files.example.org/"]"#,
        r#"["ftp://files.example.org/","h","ht","http","https://"]"#,
        r#"["//files.example.org/","/api/x"]"#,
        r#"["https://files.example.org"#,
        "\"",
        "",
    ] {
        assert_eq!(rewritten(&links, Form::Json, body), body);
    }
    let long = format!("[\"https://{}.cdn.example.org/\"]", "a".repeat(400));
    assert_eq!(rewritten(&links, Form::Json, &long), long);
}

#[test]
fn links_of_html() {
    let links = links("https://index.example.org/api/");
    for (body, expected) in [
        (
            "<a href=\"https://files.example.org/x#sha256=0\">",
            "<a href=\"http://cache:3128/m/~/https/files.example.org/x#sha256=0\">",
        ),
        ("<a href='https://files.example.org/x'>", "<a href='http://cache:3128/m/~/https/files.example.org/x'>"),
        ("<a href=\"//files.example.org/x\">", "<a href=\"http://cache:3128/m/~/https/files.example.org/x\">"),
        ("<a href=\"/api/x\">", "<a href=\"http://cache:3128/m/x\">"),
        ("<a href=\"/x\">", "<a href=\"/x\">"),
        ("<a href=\"../x\"> \"/api/\" ", "<a href=\"../x\"> \"/api/\" "),
        ("<a href=\"?u=https://files.example.org/\">", "<a href=\"?u=https://files.example.org/\">"),
    ] {
        assert_eq!(rewritten(&links, Form::Html, body), expected);
    }
}

#[test]
fn paths_from_the_root_of_a_listed_page() {
    let at = links("https://files.example.org/simple/");
    assert_eq!(
        rewritten(&at, Form::Html, "<a href=\"/packages/x\"><a href=\"/simple/y/\">"),
        "<a href=\"http://cache:3128/m/~/https/files.example.org/packages/x\"><a href=\"http://cache:3128/m/y/\">"
    );
    let page = Destination { tls: true, host: "a.cdn.example.org".into(), port: 443 };
    let elsewhere = Links::new(&at.mounted_for_tests().at(false), &page).unwrap();
    assert_eq!(
        rewritten(&elsewhere, Form::Html, "<a href=\"/simple/y/\">"),
        "<a href=\"http://cache:3128/m/~/https/a.cdn.example.org/simple/y/\">"
    );
}

/// Pieces cut at random places of a long body come to the same.
#[test]
fn random_cuts() {
    let links = links("https://index.example.org/");
    let one = r#"{"u":"https://files.example.org/a","v":"https:\/\/x.cdn.example.org\/b","w":"https://files.example.org.evil/","x":"\"https://files.example.org/"},"#;
    let body = one.repeat(200);
    let whole = in_pieces(&links, Form::Json, &body, body.len());
    assert_eq!(whole.matches("http://cache:3128/m/~/").count(), 400);
    let mut random = 1_u64;
    for _ in 0..200 {
        let (mut rewriter, mut out, mut rest) = (Rewriter::new(links.clone(), Form::Json), Vec::new(), body.as_bytes());
        while !rest.is_empty() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (piece, more) = rest.split_at((1 + (random >> 33) as usize % 97).min(rest.len()));
            out.extend(rewriter.push(piece));
            rest = more;
        }
        out.extend(rewriter.end());
        assert!(out == whole.as_bytes());
    }
}
