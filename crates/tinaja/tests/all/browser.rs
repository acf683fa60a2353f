//! Headless Chromium browses a site twice, each time as a new user; the second visit costs the origin no body.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::encodings::figure;
use crate::support::home::{Home, reverse};
use crate::support::tinaja::Setup;
use tinaja_testkit::body::body;
use tinaja_testkit::network::{Place, in_own_network};
use tinaja_testkit::nginx::{Nginx, date_back};
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::port::free_port;
use tinaja_testkit::tools::{client, run};
use tinaja_testkit::wait::eventually;

const PAGES: usize = 3;
const IMAGES: usize = 14;
const SHEETS: usize = 3;
const SCRIPTS: usize = 3;

/// Three pages of twenty objects each. When all of them work, a page's title says `all loaded`.
fn site(root: &Path) {
    for page in 1..=PAGES {
        fs::write(root.join(format!("page{page}.html")), html(page)).unwrap();
        for n in 0..IMAGES {
            fs::write(root.join(format!("image{page}-{n}.svg")), image(page, n)).unwrap();
        }
        for n in 0..SHEETS {
            fs::write(root.join(format!("sheet{page}-{n}.css")), format!("#s{n} {{ width: {}px }}\n", 100 + n))
                .unwrap();
        }
        for n in 0..SCRIPTS {
            fs::write(root.join(format!("script{page}-{n}.js")), "window.ran = (window.ran || 0) + 1;\n").unwrap();
        }
    }
    date_back(root, 30);
}

fn html(page: usize) -> String {
    let repeat = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let sheets = repeat(SHEETS, &|n| format!("<link rel=\"stylesheet\" href=\"sheet{page}-{n}.css\">\n"));
    let scripts = repeat(SCRIPTS, &|n| format!("<script src=\"script{page}-{n}.js\"></script>\n"));
    let images = repeat(IMAGES, &|n| format!("<img src=\"image{page}-{n}.svg\">\n"));
    let styled = repeat(SHEETS, &|n| format!("<div id=\"s{n}\"></div>\n"));
    format!(
        "<!DOCTYPE html><html><head><title>loading</title><link rel=\"icon\" href=\"data:,\">
{sheets}{scripts}</head><body>
{images}{styled}
<script>
window.onload = () => {{
  const images = [...document.images].filter(image => image.naturalWidth === 10).length;
  const sheets = [...document.querySelectorAll('div')].filter((d, n) => d.offsetWidth === 100 + n).length;
  document.title = images === {IMAGES} && sheets === {SHEETS} && window.ran === {SCRIPTS}
    ? 'all loaded' : `images ${{images}} sheets ${{sheets}} scripts ${{window.ran}}`;
}};
</script></body></html>\n"
    )
}

/// A picture of ten by ten with some kilobytes of its own in it.
fn image(page: usize, n: usize) -> String {
    let filler: String = body(&format!("{page}-{n}"), 4000).iter().map(|byte| char::from(b'a' + byte % 26)).collect();
    format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" height=\"10\"><!--{filler}--></svg>\n")
}

/// Every object of the site, as a path.
fn objects() -> Vec<String> {
    let mut all = Vec::new();
    for page in 1..=PAGES {
        all.push(format!("/page{page}.html"));
        for (name, kind, count) in [("image", "svg", IMAGES), ("sheet", "css", SHEETS), ("script", "js", SCRIPTS)] {
            all.extend((0..count).map(|n| format!("/{name}{page}-{n}.{kind}")));
        }
    }
    all
}

/// Chromium of the user whose home this is, who opens one page, whose DOM is printed.
fn chromium(home: &Path) -> Command {
    let mut chromium = client("chromium", home);
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    chromium.args(["--disable-dev-shm-usage", "--disable-extensions", "--dump-dom"]);
    chromium.arg(format!("--user-data-dir={}", home.join("profile").display()));
    chromium
}

/// A new user opens the three pages one after the other. Panics unless all their objects work.
fn visit(site: &Nginx, proxy: Option<&str>) {
    let home = TempDir::new().unwrap();
    for page in 1..=PAGES {
        let mut chromium = chromium(home.path());
        if let Some(proxy) = proxy {
            chromium.arg(format!("--proxy-server={proxy}")).arg("--proxy-bypass-list=<-loopback>");
        }
        let dom = run(chromium.arg(site.url(&format!("/page{page}.html"))));
        assert!(dom.contains("<title>all loaded</title>"), "page {page}: {dom}");
    }
}

/// In a network of its own where one can be made: `testkit`'s `network` says why.
#[test]
fn the_second_visit_costs_no_body() {
    if let Place::Passed = in_own_network("browser::the_second_visit_costs_no_body") {
        return;
    }
    let site = Nginx::start(site);
    let setup = Setup::forward();
    let mut proxy = setup.start();
    let objects = objects();
    assert_eq!(objects.len(), PAGES + 60);

    visit(&site, Some(&proxy.url()));
    for object in &objects {
        let fetched = site.log().iter().filter(|entry| entry.target == *object && entry.status == 200).count();
        assert_eq!(fetched, 1, "{object} on the first visit: {:?}", site.log());
    }

    let first_visit = setup.access_log_once("all of the first visit", |log| {
        objects.iter().all(|object| log.iter().any(|record| record.url == site.url(object)))
    });
    let (origin_before, proxy_before) = (site.log().len(), first_visit.len());
    visit(&site, Some(&proxy.url()));
    let later = &site.log()[origin_before..];
    assert!(later.iter().all(|entry| entry.body_bytes == 0), "bodies from the origin on the second visit: {later:?}");
    assert!(proxy.process.terminate().success());
    let seen_by_proxy = &setup.access_log()[proxy_before..];
    for object in &objects {
        let url = site.url(object);
        let asked = seen_by_proxy.iter().filter(|record| record.url == url).count();
        assert_eq!(asked, 1, "{object} on the second visit: {seen_by_proxy:?}");
    }
}

#[test]
fn the_site_made_here_loads() {
    if let Place::Passed = in_own_network("browser::the_site_made_here_loads") {
        return;
    }
    let site = Nginx::start(site);
    visit(&site, None);
    assert!(site.log().len() >= objects().len());
}

/// A page, its styles and its script, each sent in another coding. Whether the browser could read all of them, the page's title says.
fn encoded_site() -> Origin {
    let filler = |line: &str| line.repeat(400);
    let page = "<!DOCTYPE html><html><head><title>loading</title><link rel=\"icon\" href=\"data:,\">\n\
                <link rel=\"stylesheet\" href=\"styles.css\"><script src=\"script.js\"></script></head>\n\
                <body onload=\"loaded()\"><div id=\"pool\"></div>\n"
        .to_owned()
        + &filler("<p>Water stands in the rock.</p>\n")
        + "</body></html>\n";
    let styles = filler("p { margin: 1px }\n") + "#pool { width: 123px }\n";
    let script = filler("var water = 'in the rock'\n")
        + "function loaded() {
  const wide = document.getElementById('pool').offsetWidth
  const lines = document.querySelectorAll('p').length
  document.title = wide === 123 && lines === 400 ? 'all loaded' : `wide ${wide} lines ${lines}`
}\n";
    Origin::start(move |request, stream| {
        let (media_type, body) = match request.path.as_str() {
            "/styles.css" => ("text/css", &styles),
            "/script.js" => ("text/javascript", &script),
            _ => ("text/html", &page),
        };
        let fields = format!("Content-Type: {media_type}\r\nCache-Control: max-age=6000\r\n");
        reply(stream, request, 200, &fields, body.as_bytes())
    })
}

/// What was compressed here a browser reads as what it was. Codings that browsers take from who speaks no TLS only on their own machine, as here: this is
/// a reverse proxy on loopback.
#[test]
fn a_browser_reads_what_was_compressed_here() {
    if let Place::Passed = in_own_network("browser::a_browser_reads_what_was_compressed_here") {
        return;
    }
    let (origin, metrics) = (encoded_site(), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let mut home = Home::new();
    home.top = format!("metrics = \"{metrics}\"\n");
    let codings = [("*.css", "zstd"), ("*.js", "br"), ("/page.html", "gzip")];
    home.listener =
        codings.map(|(path, coding)| format!("[[cache_rule]]\npath = \"{path}\"\nencode = \"{coding}\"\n")).concat();
    let tinaja = home.start(&reverse(&origin));
    let visit = || {
        let user = TempDir::new().unwrap();
        let dom = run(chromium(user.path()).arg(format!("http://{}/page.html", home.listen)));
        assert!(dom.contains("<title>all loaded</title>"), "{dom}");
    };
    let of = |name: &str, labels: &str| figure(metrics, &format!("tinaja_{name}{{{labels}}}"));
    // The first user gets all of it as it is, and so says in which codings the next one will.
    visit();
    for (path, coding) in codings {
        let labels = format!("coding=\"{coding}\",result=\"stored\"");
        eventually(&format!("the form of {path}"), || of("encoded_objects_total", &labels) == 1.0);
        assert_eq!(of("encoded_hits_total", &format!("coding=\"{coding}\"")), 0.0, "{path}");
    }
    visit();
    for (path, coding) in codings {
        eventually(&format!("{path} as {coding}"), || of("encoded_hits_total", &format!("coding=\"{coding}\"")) == 1.0);
    }
    assert_eq!(origin.count(), 3, "{:?}", origin.paths());
    drop(tinaja);
}
