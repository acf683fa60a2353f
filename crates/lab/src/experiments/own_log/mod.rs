//! A log of whoever asks, replayed through the engines that ship and through published policies at equal bytes.

mod load;
mod notes;
mod runs;
mod tables;

use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::progress::Progress;
use crate::report::Report;
use load::Load;
use runs::Runs;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "replay",
    shows: "your own log through every engine and nine published policies: hits, reads, writes, memory, times",
    paper: "no paper: docs/replay.md",
    replays_logs: true,
    takes_requests: true,
    resumes: false,
    needs: Needs::Log,
    run,
};

fn run(setup: &Setup) -> Result<Report, LabError> {
    let [path] = &setup.traces[..] else {
        return Err(LabError::NeedsTrace { name: EXPERIMENT.name, given: setup.traces.len() });
    };
    let load = Load::read(path, setup)?;
    let disks = load.disks(setup)?;
    let engines = runs::engines(setup);
    let mut all = Vec::new();
    for (number, disk) in (1..).zip(&disks) {
        let title = format!("replay: disk {number} of {}, {}", disks.len(), disk.title());
        let mut progress = Progress::of(title.clone(), Runs::steps(&load, &engines));
        all.push(Runs::of(&load, *disk, &engines, setup, &mut |now: Option<&str>| match now {
            Some(name) => progress.now(format!("{title}, {name}")),
            None => progress.step(),
        })?);
    }
    let mut tables = vec![tables::log(&load)];
    tables.extend(all.iter().map(tables::disk));
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let (plots, notes) = (tables::plots(&all), notes::notes(&load, setup));
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tinaja_store::{EngineRef, engines};

    use super::*;
    use crate::experiment::{DiskPart, ReplayOptions};
    use crate::load::{Days, DaysOptions};
    use crate::report::{Cell, Table};

    /// A load as a log with a line for each request.
    fn log() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for request in Days::new(DaysOptions::new(), 5).take(10_000) {
            let seconds = request.time.as_secs_f64();
            writeln!(file, "{seconds},{},{},{}", request.object, request.bytes, request.client).unwrap();
        }
        file
    }

    fn replayed(
        log: &tempfile::NamedTempFile,
        engines: Vec<EngineRef>,
        disks: Vec<DiskPart>,
        memory_bytes: u64,
    ) -> Report {
        let (traces, replay) = (vec![log.path().to_path_buf()], ReplayOptions { engines, disks, memory_bytes });
        run(&Setup { traces, replay, ..Setup::default() }).unwrap()
    }

    fn cell<'a>(table: &'a Table, row: &str, column: &str) -> &'a Cell {
        let at = table.rows.iter().position(|cells| cells[0].to_string() == row).unwrap();
        table.column(column)[at]
    }

    #[test]
    fn every_engine_that_has_a_disk_is_replayed_beside_the_policies() {
        let report = replayed(&log(), vec![], vec![DiskPart::Percent(35.0)], 0);
        let table = &report.tables[1];
        let of =
            |row: &str, column: &str| cell(table, row, column).value().unwrap_or_else(|| panic!("{row}: {table:?}"));
        assert_eq!(
            table.rows.len(),
            9 + engines::on_devices().iter().count() + 2,
            "generational has three words for `value`"
        );
        let best = of("Belady, sizes", "objects found %");
        for engine in engines::on_devices().iter() {
            let hits = of(engine.name, "objects found %");
            assert!(hits > best / 3.0 && hits < best + 0.5, "{engine}: {table:?}");
            // What was stored was written, and most of what was found was read, on a disk that takes its time.
            assert!(of(engine.name, "written / stored") > 0.99, "{engine}: {table:?}");
            assert!(of(engine.name, "p99 ms") > 1.0 && of(engine.name, "disk busy %") > 0.0, "{engine}: {table:?}");
        }
        let (objects, bytes) = ("generational", "generational, value = bytes");
        assert!(of(bytes, "bytes found %") > of(objects, "bytes found %"), "{table:?}");
        assert!(of(bytes, "objects found %") < of(objects, "objects found %"), "{table:?}");
        assert!(of("hashcache-log", "index bits") > 40.0, "{table:?}");
        assert_eq!(cell(table, "hashcache-set", "index bits"), &Cell::Nothing);
        assert_eq!(cell(table, "LRU", "p99 ms"), &Cell::Nothing);
    }

    /// What an engine cannot be put on is said in its row, and all others go on.
    #[test]
    fn an_engine_without_a_disk_or_room_says_so_in_its_row() {
        let chosen = vec![engines::SEGMENTED, engines::SQUID, engines::HASHCACHE_LOG];
        let report = replayed(&log(), chosen, vec![DiskPart::Percent(35.0), DiskPart::Bytes(12_288)], 0);
        let [_, roomy, narrow] = &report.tables[..] else { panic!("{report:?}") };
        assert!(cell(roomy, "squid", "remark").to_string().contains("files in a directory"), "{roomy:?}");
        assert!(cell(roomy, "segmented", "objects found %").value().unwrap() > 1.0, "{roomy:?}");
        assert!(cell(narrow, "segmented", "remark").to_string().contains("too small"), "{narrow:?}");
        assert!(cell(narrow, "LRU", "objects found %").value().is_some(), "{narrow:?}");
    }

    /// Objects that are kept in memory are not read from the disk.
    #[test]
    fn memory_takes_reads_from_the_disk() {
        let (log, disk) = (log(), vec![DiskPart::Percent(35.0)]);
        let reads = |memory_bytes| {
            let report = replayed(&log, vec![engines::HASHCACHE_LOG], disk.clone(), memory_bytes);
            cell(&report.tables[1], "hashcache-log", "reads / request").value().unwrap()
        };
        let (without, with) = (reads(0), reads(64 << 20));
        assert!(with < without / 2.0, "{with} and {without}");
    }

    #[test]
    fn one_log_is_replayed_and_not_two() {
        let why = |traces: Vec<std::path::PathBuf>| run(&Setup { traces, ..Setup::default() }).unwrap_err().to_string();
        assert!(why(vec![]).starts_with("replay takes exactly one log, and 0 were given"));
        assert!(why(vec!["a".into(), "b".into()]).starts_with("replay takes exactly one log, and 2 were given"));
    }
}
