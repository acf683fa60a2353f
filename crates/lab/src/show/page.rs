//! A report as a page of documentation.

use std::fmt::Write;

use comfy_table::presets::ASCII_MARKDOWN;

use super::text::grid;
use crate::experiment::Experiment;
use crate::report::Report;

/// A report as Markdown, with the picture of this name if there is one.
pub fn page(report: &Report, picture: Option<&str>) -> String {
    let quick = if report.quick { " --quick" } else { "" };
    let Report { name, shows, paper, seed, .. } = report;
    let mut page =
        format!("# {name}\n\n{shows}; {paper}.\n\nMade by `tinaja lab {name}{quick} --seed {seed}`. Do not edit.\n");
    if let Some(picture) = picture {
        // Writing into a String cannot fail.
        let _ = write!(page, "\n![{name}]({picture})\n");
    }
    for table in &report.tables {
        let _ = write!(page, "\n## {}\n\n{}\n", table.title, grid(table, ASCII_MARKDOWN));
    }
    if !report.notes.is_empty() {
        page.push_str("\n## How it was measured, and why it differs\n\n");
    }
    for note in &report.notes {
        let _ = writeln!(page, "- {note}");
    }
    page
}

/// The page that leads to those of the experiments that have one.
pub fn contents(experiments: &[Experiment], has_page: impl Fn(&str) -> bool) -> String {
    let mut page = String::from(
        "# The laboratory's pages\n\nEach is one experiment, as `tinaja lab` lists them. `tinaja lab all --docs docs/lab` \
         makes them again; those that replay requests need logs, named with `--trace`, and those that need root are run by \
         their names.\n\n\
         | experiment | shows | paper |\n|---|---|---|\n",
    );
    for Experiment { name, shows, paper, .. } in experiments {
        let named = if has_page(name) { format!("[{name}]({name}.md)") } else { (*name).to_owned() };
        // Writing into a String cannot fail.
        let _ = writeln!(page, "| {named} | {shows} | {paper} |");
    }
    page
}
