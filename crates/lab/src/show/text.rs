//! A report on a terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};

use crate::experiment::{Experiment, Needs};
use crate::report::{Cell, Report, Table};

/// A report as text: its seed, its tables, its notes.
pub fn text(report: &Report) -> String {
    let size = if report.quick { "quick" } else { "full" };
    let mut text = format!("{}: {}\n{}; {size}, seed {}\n", report.name, report.shows, report.paper, report.seed);
    for table in &report.tables {
        // Writing into a String cannot fail.
        let _ = write!(text, "\n{}\n{}\n", table.title, grid(table, presets::UTF8_BORDERS_ONLY));
        if !table.sentence.is_empty() {
            let _ = writeln!(text, "{}", table.sentence);
        }
    }
    for note in &report.notes {
        let _ = write!(text, "\n- {note}");
    }
    text.push('\n');
    text
}

/// Every experiment with what it shows.
pub fn list(experiments: &[Experiment]) -> String {
    let mut grid = Grid::new();
    grid.load_preset(presets::NOTHING);
    for Experiment { name, shows, paper, needs, .. } in experiments {
        let root = match needs {
            Needs::Nothing => "",
            Needs::Root => " (needs root; only run by name)",
            Needs::Time => " (as root on disks of its own; only run by name)",
            Needs::Ucx => " (needs UCX)",
            Needs::Log => " (only run by name: tinaja lab replay LOG)",
        };
        grid.add_row([(*name).to_owned(), format!("{shows}{root}"), (*paper).to_owned()]);
    }
    format!("{grid}\n")
}

/// The table with lines or marks as a preset draws them; numbers stand on the right.
pub fn grid(table: &Table, preset: &str) -> String {
    let mut grid = Grid::new();
    grid.load_preset(preset).set_content_arrangement(ContentArrangement::Disabled).set_header(&table.columns);
    for row in &table.rows {
        grid.add_row(row.iter().map(|cell| {
            let shown = comfy_table::Cell::new(cell);
            match cell {
                Cell::Text(_) => shown,
                Cell::Count(_) | Cell::Number(..) | Cell::Nothing => shown.set_alignment(CellAlignment::Right),
            }
        }));
    }
    grid.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_all_that_it_holds() {
        let mut table = Table::new("Numbers", &["name", "bits"]);
        table.row(["hashcache-log".into(), Cell::number(47.04, 1)]);
        let (tables, notes) = (vec![table], vec!["A reason.".to_owned()]);
        let report =
            Report { name: "n", shows: "s", paper: "p", quick: true, seed: 7, tables, plots: Vec::new(), notes };
        let text = text(&report);
        for part in ["n: s", "quick, seed 7", "Numbers", "hashcache-log", "47.0", "- A reason."] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }
}
