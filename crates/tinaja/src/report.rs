//! What `inspect` says of a cache, as a table or as JSON.

use std::fmt;
use std::path::PathBuf;

use bytesize::ByteSize;
use serde::Serialize;
use tinaja_store::Stats;

/// The figures of a stopped cache. Sizes are bytes; the names are stable, scripts read them.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The cache's directories, separated by commas.
    pub cache: String,
    /// See [`Stats::slots`].
    pub slots: u64,
    /// See [`Stats::live_objects`].
    pub live_objects: u64,
    /// See [`Stats::lost_to_full_sets`].
    pub lost_to_full_sets: u64,
    /// See [`Stats::fill`].
    pub fill: f64,
    /// See [`Stats::index_bytes`].
    pub index_bytes: u64,
    /// See [`Stats::bits_per_slot`].
    pub bits_per_slot: f64,
    /// See [`Stats::bits_per_live_object`].
    pub bits_per_live_object: f64,
    /// See [`Stats::capacity_bytes`].
    pub capacity_bytes: u64,
    /// See [`Stats::frontier_bytes`].
    pub frontier_bytes: u64,
    /// See [`Stats::lap`].
    pub lap: u64,
    /// See [`Stats::corrupt`].
    pub corrupt: u64,
}

impl Report {
    /// The figures of the cache in `dirs`.
    pub fn new(dirs: &[PathBuf], stats: &Stats) -> Self {
        Report {
            cache: shown(dirs),
            slots: stats.slots,
            live_objects: stats.live_objects,
            lost_to_full_sets: stats.lost_to_full_sets,
            fill: stats.fill(),
            index_bytes: stats.index_bytes,
            bits_per_slot: stats.bits_per_slot(),
            bits_per_live_object: stats.bits_per_live_object(),
            capacity_bytes: stats.capacity_bytes,
            frontier_bytes: stats.frontier_bytes,
            lap: stats.lap,
            corrupt: stats.corrupt,
        }
    }

    fn bits_per_live_object_text(&self) -> String {
        if self.live_objects == 0 { "none live".to_owned() } else { format!("{:.2}", self.bits_per_live_object) }
    }

    fn rows(&self) -> [(&'static str, String); 11] {
        [
            ("cache", self.cache.clone()),
            ("room for objects", size(self.capacity_bytes)),
            ("slots", self.slots.to_string()),
            ("live objects", self.live_objects.to_string()),
            ("lost to full sets", self.lost_to_full_sets.to_string()),
            ("fill", format!("{:.1} %", self.fill * 100.0)),
            ("index in memory", size(self.index_bytes)),
            ("bits a slot", format!("{:.2}", self.bits_per_slot)),
            ("bits a live object", self.bits_per_live_object_text()),
            ("lap", format!("{}, {} written in it", self.lap, size(self.frontier_bytes))),
            ("corrupt records met", self.corrupt.to_string()),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.rows() {
            writeln!(f, "{name:<22}{value}")?;
        }
        Ok(())
    }
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
    use super::*;

    fn report(stats: &Stats) -> Report {
        Report::new(&["/c".into()], stats)
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
            table.contains("bits a slot           47.00\n") && table.contains("fill                  47.0 %\n"),
            "{table}"
        );
    }

    #[test]
    fn an_empty_cache_has_figures_too() {
        let json = serde_json::to_value(report(&Stats::default())).unwrap();
        assert_eq!(json["bits_per_live_object"], 0.0);
        assert!(report(&Stats::default()).to_string().contains("bits a live object    none live\n"));
    }
}
