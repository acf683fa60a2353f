//! curl through the forward proxy, in front of a real nginx.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::client::says_hit;
use tinaja_testkit::nginx::{Nginx, date_back};
use tinaja_testkit::tools::{client, run};

/// The Cache-Status that curl saw, and the body it saved.
fn curl(proxy: &Tinaja, url: &str) -> (String, Vec<u8>) {
    let home = TempDir::new().unwrap();
    let head = run(client("curl", home.path())
        .args(["--silent", "--show-error", "--fail", "--max-time", "20", "--dump-header", "-", "--output", "body"])
        .args(["--proxy", &proxy.url(), "--noproxy", "", url]));
    let status =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("cache-status:").map(str::to_owned));
    (status.expect("a Cache-Status field"), fs::read(home.path().join("body")).unwrap())
}

fn one_page(root: &Path) {
    fs::write(root.join("page.html"), "<p>water in the rock</p>").unwrap();
    date_back(root, 30);
}

#[test]
fn the_second_request_is_a_hit_and_never_reaches_the_origin() {
    let mut nginx = Nginx::start(one_page);
    let setup = Setup::forward();
    let proxy = setup.start();

    let (first, body) = curl(&proxy, &nginx.url("/page.html"));
    assert!(!says_hit(&first), "{first}");
    assert_eq!(body, b"<p>water in the rock</p>");

    let (second, again) = curl(&proxy, &nginx.url("/page.html"));
    assert!(says_hit(&second), "{second}");
    assert_eq!(again, body);
    assert_eq!(nginx.log().len(), 1, "{:?}", nginx.log());

    nginx.stop();
    let (third, still) = curl(&proxy, &nginx.url("/page.html"));
    assert!(says_hit(&third), "{third}");
    assert_eq!(still, body);
}

#[test]
fn one_flag_makes_a_reverse_proxy() {
    let nginx = Nginx::start(one_page);
    let setup = Setup::reverse(nginx.address());
    let proxy = setup.start();
    let home = TempDir::new().unwrap();
    let get = || run(client("curl", home.path()).args(["-sS", "--fail", "-i", &format!("{}/page.html", proxy.url())]));
    assert!(get().contains("<p>water in the rock</p>"));
    let second = get();
    let status = second.lines().find(|line| line.to_ascii_lowercase().starts_with("cache-status:"));
    assert!(says_hit(status.expect("a Cache-Status field")), "{second}");
    assert!(second.contains("<p>water in the rock</p>"));
    assert_eq!(nginx.log().len(), 1, "{:?}", nginx.log());
}
