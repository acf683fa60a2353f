//! Purges are forgotten once nothing that they name is left, while clients go on asking: nothing that was purged comes back, and all else stays a hit.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::encodings::figure;
use crate::support::tinaja::Setup;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::kill_now;
use tinaja_testkit::tools::output;
use tinaja_testkit::wait::wait_for;

const PAGES: u64 = 60;

fn purge(setup: &Setup, args: &[&str]) {
    let done = output(setup.binary().arg("purge").args(args).arg("--cache").arg(setup.cache_dir()));
    assert!(done.status.success(), "{done:?}");
}

/// Half of all pages have the tag `even`. They are purged under load, and all are asked for again and again meanwhile.
fn purges_are_forgotten(engine: &str) {
    let version = Arc::new(AtomicU64::new(1));
    let of_origin = version.clone();
    let origin = Origin::start(move |request, stream| {
        let number: u64 = request.path.trim_start_matches("/page/").parse().unwrap_or(1);
        let tag = if number.is_multiple_of(2) { "even" } else { "odd" };
        let fields = format!("Cache-Control: max-age=36000\r\nSurrogate-Key: {tag}\r\n");
        let body = format!("{} {}", of_origin.load(SeqCst), "x".repeat(2000));
        reply(stream, request, 200, &fields, body.as_bytes())
    });
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), format!("metrics = \"{metrics}\"\n")).unwrap();
    let path = config.path().to_str().unwrap();
    let setup = Setup::reverse(origin.address).flags(&["--engine", engine, "--config", path]);
    let mut proxy = setup.start();
    let page = |number: u64| get(setup.address(), &format!("/page/{number}"));
    let version_of = |number| page(number).unwrap().text().split(' ').next().map(str::to_owned).unwrap();
    // Of the odd half nobody asks again: what nobody asks for is to be forgotten too.
    (0..2 * PAGES).for_each(|number| drop(page(number).unwrap()));
    assert!(page(1).unwrap().is_hit() && page(2).unwrap().is_hit());
    let (ended, oldest, asked) = (AtomicBool::new(false), AtomicU64::new(1), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..).map(|number| number % PAGES) {
                if ended.load(SeqCst) {
                    return;
                }
                let least = oldest.load(SeqCst);
                let Ok(answer) = page(number) else { continue };
                let text = answer.text();
                let got: u64 = text.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
                if number % 2 == 0 {
                    assert!(got >= least, "{got} after {least} was purged: {}", answer.cache_status());
                }
                asked.fetch_add(1, SeqCst);
                thread::sleep(Duration::from_millis(2));
            }
        });
        version.store(2, SeqCst);
        purge(&setup, &["--tag", "even", "--host", "other.example", "--suffix", ".css"]);
        purge(&setup, &["--tag", "even"]);
        oldest.store(2, SeqCst);
        assert!(figure(metrics, "tinaja_bans") >= 2.0);
        let forgotten = || (figure(metrics, "tinaja_bans") == 0.0).then_some(());
        wait_for("purges to be forgotten", Duration::from_secs(240), forgotten);
        let before = asked.load(SeqCst);
        wait_for("answers", Duration::from_secs(60), || (asked.load(SeqCst) > before + 100).then_some(()));
        ended.store(true, SeqCst);
    });
    assert!(figure(metrics, "tinaja_ban_walks_total{result=\"ended\"}") >= 1.0);
    assert!(figure(metrics, "tinaja_walked_objects_total{result=\"gone\"}") >= 20.0, "those that nobody asked for");
    let versions = || (0..2 * PAGES).map(version_of).collect::<Vec<_>>();
    let check = |versions: &[String], purged: &str| {
        let is_old = |version: &String| version.parse().is_ok_and(|got: u64| got < purged.parse().unwrap());
        let old = |rest| versions.iter().skip(rest).step_by(2).filter(|version| is_old(version)).count() as u64;
        assert_eq!(old(0), 0, "what was purged came back: {versions:?}");
        // An engine may have forgotten one of another name.
        assert!(old(1) >= PAGES * 9 / 10, "nobody purged it: {versions:?}");
    };
    check(&versions(), "2");
    // The index of a new cache is saved at once for the first epoch, and the purges leave the file.
    let have_left = || (figure(metrics, "tinaja_written_bans") == 0.0).then_some(());
    wait_for("purges to leave the file", Duration::from_secs(60), have_left);
    let file = setup.cache_dir().join("tinaja.bans");
    assert_eq!(fs::metadata(&file).unwrap().len(), 48, "its beginning alone");
    // Killed, it goes by the index that was saved, and has no purge to compare anything with.
    let mut again = || {
        kill_now(proxy.process.pid());
        proxy.process.wait();
        proxy = setup.start();
    };
    again();
    assert_eq!(figure(metrics, "tinaja_bans"), 0.0);
    check(&versions(), "2");
    // Killed when a purge has just been forgotten, it may find what it had forgotten, and goes by the purge again if so.
    version.store(3, SeqCst);
    purge(&setup, &["--tag", "even"]);
    wait_for("a purge to be forgotten", Duration::from_secs(240), || {
        (figure(metrics, "tinaja_bans") == 0.0).then_some(())
    });
    again();
    check(&versions(), "3");
    wait_for("it to leave the file", Duration::from_secs(240), have_left);
    // Without a saved index nobody knows whether what was purged is back: everything as old as the last purge that left is asked for again. What was
    // fetched since counts, where the log still says what there is.
    version.store(4, SeqCst);
    kill_now(proxy.process.pid());
    proxy.process.wait();
    damage_saved_indexes(setup.cache_dir());
    let proxy = setup.start();
    let again = versions();
    assert!(again.iter().skip(1).step_by(2).all(|version| version == "4"), "{again:?}");
    assert!(again.iter().step_by(2).all(|version| version == "3" || version == "4"), "{again:?}");
    assert!(page(1).unwrap().is_hit() && page(2).unwrap().is_hit(), "what was fetched since counts");
    drop(proxy);
}

/// One byte of the header of each snapshot that there is.
fn damage_saved_indexes(dir: &Path) {
    let mut damaged = 0;
    for file in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let bytes = fs::read(&file).unwrap();
        let headers = bytes.chunks(4096).enumerate().filter(|(_, block)| block.starts_with(b"TjI0"));
        let file = fs::OpenOptions::new().write(true).open(&file).unwrap();
        for (number, block) in headers {
            file.write_all_at(&[block[9] ^ 1], number as u64 * 4096 + 9).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0, "no index was saved in {}", dir.display());
}

#[test]
fn by_hashcache_log() {
    purges_are_forgotten("hashcache-log");
}

#[test]
fn by_generational() {
    purges_are_forgotten("generational");
}
