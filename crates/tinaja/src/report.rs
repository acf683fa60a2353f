//! What `inspect` says of a cache, as a table or as JSON.

use std::fmt;
use std::path::PathBuf;

use bytesize::ByteSize;
use serde::Serialize;
use tinaja_proxy::admin::words::{Figures, Top};
use tinaja_store::{EngineFigures, EngineRef, Stats, engines};

/// Fewer requests of the sample say nothing of a larger cache.
const LEAST_SAMPLED: u64 = 1000;

/// How large the index on the disk is, where it is there and not in memory; and how often lookups have read it.
const INDEX_ON_DISK: [&str; 2] = ["index_disk_bytes", "index_reads"];

/// The figures of a cache. Sizes are bytes; the names are stable, scripts read them.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The cache's directories, separated by commas.
    pub cache: String,
    /// Whether a server runs on it.
    pub running: bool,
    #[serde(flatten)]
    pub figures: Figures,
    /// The hosts with the most, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<Top>,
}

impl Report {
    /// The figures of the cache in `dirs`.
    pub fn new(dirs: &[PathBuf], running: bool, figures: Figures, top: Option<Top>) -> Self {
        Report { cache: shown(dirs), running, figures, top }
    }

    /// Its engine; `None` where this program does not know it, as that of a newer server.
    fn engine(&self) -> Option<EngineRef> {
        engines::built_in().find(&self.figures.engine).ok()
    }

    /// What follows from the number of live objects, where the engine counts them.
    fn counted(&self, text: String) -> String {
        if self.engine().is_none_or(|engine| engine.counts_objects) {
            text
        } else {
            "not counted: the index in memory does not cover all objects".to_owned()
        }
    }

    fn bits_per_live_object_text(&self) -> String {
        match self.figures.live_objects {
            0 => "none live".to_owned(),
            _ => format!("{:.2}", self.figures.bits_per_live_object),
        }
    }

    /// A figure of the engine's own, as the server says it. Servers before there were such told of two.
    fn of_engine(&self, name: &str) -> u64 {
        let Figures { bin_bytes, ways, of_engine, .. } = &self.figures;
        let older = || match name {
            "bin_bytes" => *bin_bytes,
            "set_bins" => *ways,
            _ => 0,
        };
        of_engine.get(name).copied().unwrap_or_else(older)
    }

    /// How the slots are cut, where the engine has something to say of that.
    fn cut(&self) -> String {
        let Figures { mean_object_bytes, slots, capacity_bytes, .. } = self.figures;
        let Some(engine) = self.engine() else { return String::new() };
        let of_engine = engine
            .figures
            .iter()
            .fold(EngineFigures::default(), |all, figure| all.with(figure, self.of_engine(figure.name)));
        (engine.inspect)(&Stats { mean_object_bytes, slots, capacity_bytes, of_engine, ..Stats::default() })
    }

    /// What of the memory is hot objects'. Only a server has any, and servers before did not say.
    fn hot(&self) -> String {
        match (self.figures.hot_bytes, self.figures.hot_budget_bytes) {
            (_, 0) => "none".to_owned(),
            (bytes, most) => format!("{} of at most {}", size(bytes), size(most)),
        }
    }

    /// What twice the memory and twice the disk would do, as far as a sample of what was asked for says. Only a server has one.
    fn larger(&self) -> Vec<(&'static str, String)> {
        let figures = &self.figures;
        let of_100 = |share: f64| format!("{:.1} of 100", share * 100.0);
        let disk = match figures.sampled_requests {
            0 => return Vec::new(),
            few @ 1..LEAST_SAMPLED => format!("not known yet: {few} of {LEAST_SAMPLED} requests were sampled"),
            many => format!(
                "{} requests more would be hits, {} bytes; for LRU, by {many} sampled requests",
                of_100(figures.twice_disk_requests),
                of_100(figures.twice_disk_bytes)
            ),
        };
        let memory = || format!("{} requests more would be hits in memory", of_100(figures.twice_memory_requests));
        let is_known = figures.sampled_requests >= LEAST_SAMPLED && figures.hot_budget_bytes > 0;
        let memory = is_known.then(|| ("with twice the memory", memory()));
        memory.into_iter().chain([("with twice the disk", disk)]).collect()
    }

    fn rows(&self) -> [(&'static str, String); 15] {
        let figures = &self.figures;
        [
            ("cache", self.cache.clone()),
            ("server", if self.running { "running" } else { "stopped" }.to_owned()),
            ("engine", figures.engine.clone()),
            ("room for objects", size(figures.capacity_bytes)),
            (
                "slots",
                format!(
                    "{}, for objects of {} on average{}",
                    figures.slots,
                    size(figures.mean_object_bytes),
                    self.cut()
                ),
            ),
            ("live objects", self.counted(figures.live_objects.to_string())),
            ("lost to full sets", figures.lost_to_full_sets.to_string()),
            ("fill", self.counted(format!("{:.1} %", figures.fill * 100.0))),
            ("index in memory", size(figures.index_bytes)),
            ("hot objects in memory", self.hot()),
            ("bits per slot", format!("{:.2}", figures.bits_per_slot)),
            ("bits per live object", self.counted(self.bits_per_live_object_text())),
            ("lap", format!("{}, {} written so far", figures.lap, size(figures.frontier_bytes))),
            ("corrupt records found", figures.corrupt.to_string()),
            ("damaged parts found", figures.damaged_at_open.to_string()),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.rows() {
            writeln!(f, "{name:<22}{value}")?;
        }
        let [index_bytes, index_reads] = INDEX_ON_DISK.map(|name| self.of_engine(name));
        if index_bytes > 0 {
            writeln!(
                f,
                "{:<22}{}, read {index_reads} times to look an object up",
                "index on the disk",
                size(index_bytes)
            )?;
        }
        for (name, value) in self.larger() {
            writeln!(f, "{name:<22}{value}")?;
        }
        self.top.as_ref().map_or(Ok(()), |top| hosts(f, top))
    }
}

fn hosts(f: &mut fmt::Formatter<'_>, top: &Top) -> fmt::Result {
    let all = if top.complete { "all" } else { "incomplete: time ran out" };
    writeln!(f, "{:<22}{} of {}, {all}", "objects read", top.objects, size(top.bytes))?;
    for (what, hosts) in [("most objects", &top.by_objects), ("most bytes", &top.by_bytes)] {
        for (number, host) in hosts.iter().enumerate() {
            let what = if number == 0 { what } else { "" };
            writeln!(f, "{what:<22}{:>10} {:>12}  {}", host.objects, size(host.bytes), host.host)?;
        }
    }
    Ok(())
}

/// Directories as they are shown to people.
pub fn shown(dirs: &[PathBuf]) -> String {
    dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use tinaja_proxy::admin::words::Host;
    use tinaja_store::{Amount, Larger};

    use super::*;

    fn report(stats: &Stats) -> Report {
        Report::new(&["/c".into()], false, Figures::from(stats), None)
    }

    /// An engine that has no index says 0 objects, which would read as if the cache were empty.
    #[test]
    fn what_an_engine_does_not_count_is_not_called_none() {
        for engine in engines::built_in().iter() {
            let stats = Stats { engine: engine.name, slots: 1000, ..Stats::default() };
            let table = report(&stats).to_string();
            let counts = table.contains("live objects          0\n");
            assert_eq!(counts, engine.counts_objects, "{table}");
            assert_eq!(table.matches("not counted").count(), if counts { 0 } else { 3 });
        }
    }

    #[test]
    fn figures_follow_from_the_counters() {
        let stats = Stats { slots: 1000, live_objects: 470, index_bytes: 5875, lap: 2, ..Stats::default() };
        let json = serde_json::to_value(report(&stats)).unwrap();
        assert_eq!(json["bits_per_slot"], 47.0);
        assert_eq!(json["bits_per_live_object"], 100.0);
        assert_eq!(json["fill"], 0.47);
        let table = report(&stats).to_string();
        assert!(
            table.contains("bits per slot         47.00\n") && table.contains("fill                  47.0 %\n"),
            "{table}"
        );
    }

    /// A few bits of memory for each object would read as if that were the whole index.
    #[test]
    fn an_index_on_the_disk_is_said_to_be_there() {
        let generational = engines::GENERATIONAL;
        let said = |bytes| {
            let figures = generational.figures.iter().zip([1, 2, 3, 4, 5, 6, bytes, 8]);
            let of_engine = figures.fold(EngineFigures::default(), |all, (figure, value)| all.with(figure, value));
            report(&Stats { engine: generational.name, of_engine, ..Stats::default() }).to_string()
        };
        let text = said(3 << 20);
        assert!(text.contains("index on the disk     3.0 MiB, read 8 times to look an object up\n"), "{text}");
        assert!(!said(0).contains("index on the disk"));
    }

    #[test]
    fn what_a_larger_cache_would_find_is_said_once_it_is_known() {
        let amount = |objects, bytes| Amount { objects, bytes };
        let larger = Larger {
            sampled: 2000,
            asked: amount(1000, 5000),
            memory: amount(100, 100),
            twice_memory: amount(225, 300),
            disk: amount(500, 2000),
            twice_disk: amount(540, 2500),
        };
        let said =
            |larger, hot_budget_bytes| report(&Stats { larger, hot_budget_bytes, ..Stats::default() }).to_string();
        let (memory, disk) = ("with twice the memory ", "with twice the disk   ");
        let text = said(larger, 1 << 20);
        assert!(text.contains(&format!("{memory}12.5 of 100 requests more would be hits in memory\n")), "{text}");
        let more = "4.0 of 100 requests more would be hits, 10.0 of 100 bytes; for LRU, by 2000 sampled requests\n";
        assert!(text.contains(&format!("{disk}{more}")), "{text}");
        assert!(!said(larger, 0).contains(memory), "there is no memory to be doubled");
        let text = said(Larger { sampled: 312, ..larger }, 1 << 20);
        assert!(text.contains(&format!("{disk}not known yet: 312 of 1000 requests were sampled\n")), "{text}");
        assert!(!said(Larger::default(), 1 << 20).contains("twice"), "nothing runs");
    }

    #[test]
    fn hosts_are_listed_behind_the_figures() {
        let host = |host: &str, objects, bytes| Host { host: host.into(), objects, bytes };
        let top = Top {
            by_objects: vec![host("a", 5, 2048), host("b", 1, 4096)],
            by_bytes: vec![host("b", 1, 4096)],
            objects: 6,
            bytes: 6144,
            complete: false,
        };
        let table = Report::new(&[], true, Figures::default(), Some(top)).to_string();
        let (_, listed) = table.split_once("objects read").unwrap();
        let lines: Vec<String> =
            listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "6 of 6.0 KiB, incomplete: time ran out");
        assert_eq!(lines[1..], ["most objects 5 2.0 KiB a", "1 4.0 KiB b", "most bytes 1 4.0 KiB b"]);
    }

    #[test]
    fn an_empty_cache_has_figures_too() {
        let json = serde_json::to_value(report(&Stats::default())).unwrap();
        assert_eq!(json["bits_per_live_object"], 0.0);
        assert!(report(&Stats::default()).to_string().contains("bits per live object  none live\n"));
    }
}
