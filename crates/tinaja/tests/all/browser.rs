//! Headless Chromium browses a site twice, each time as a new user; the second visit costs the origin no body.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::support::tinaja::Setup;
use tinaja_testkit::body::body;
use tinaja_testkit::network::{Place, in_own_network};
use tinaja_testkit::nginx::{Nginx, date_back};
use tinaja_testkit::tools::{client, run};

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

/// A new user opens the three pages one after the other. Panics unless all their objects work.
fn visit(site: &Nginx, proxy: Option<&str>) {
    let home = TempDir::new().unwrap();
    for page in 1..=PAGES {
        let mut chromium = client("chromium", home.path());
        chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        chromium.args(["--disable-dev-shm-usage", "--disable-extensions", "--dump-dom"]);
        chromium.arg(format!("--user-data-dir={}", home.path().join("profile").display()));
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
