//! `serve --engine NAME` runs each engine, and a cache keeps the one it was made with.

use tempfile::TempDir;
use tinaja_store::engines;

use crate::support::tinaja::Setup;
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;

#[test]
fn every_engine_serves_and_is_kept() {
    let all = engines::built_in();
    for engine in all.iter() {
        let (origin, dir) = (Origin::of_patterns(), TempDir::new().unwrap());
        let setup = |flags: &[&str]| Setup::forward().cache(&dir.path().join("cache")).flags(flags);
        for flags in [&["--engine", engine.name][..], &[]] {
            let mut proxy = setup(flags).start();
            for path in ["/3000/a", "/20000/b", "/900000/c"] {
                let response = proxy.get(&origin.url(path)).unwrap();
                let bytes = path.split('/').nth(1).unwrap().parse().unwrap();
                assert!(response.status == 200 && response.body == body(path, bytes), "{engine}: {path}");
            }
            assert_eq!(proxy.process.terminate().code(), Some(0), "{engine}");
        }
        assert_eq!(origin.paths().len(), 3, "{engine}: the others were hits");
        let inspected = setup(&[]).inspect();
        let figures: serde_json::Value = serde_json::from_slice(&inspected.stdout).unwrap();
        assert_eq!(figures["engine"], engine.name);

        let other = all.iter().find(|other| *other != engine).unwrap();
        let refused = setup(&["--engine", other.name]).run();
        let says = String::from_utf8_lossy(&refused.stderr).into_owned();
        let expected = format!("the engine {engine}, not {other}: leave the setting out");
        assert!(!refused.status.success() && says.contains(&expected), "{says}");
    }
}
