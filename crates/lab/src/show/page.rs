//! A report as a page of documentation.

use std::fmt::Write;

use comfy_table::presets::ASCII_MARKDOWN;

use super::text::grid;
use crate::experiment::{Experiment, Needs, Setup, plain_name};
use crate::report::Report;

/// A report as Markdown, with the picture of this name if there is one. It says by which command it was made: the logs that
/// were replayed are named by their files' names, wherever they lay, and what else was asked for, if it counts for the experiment.
pub fn page(report: &Report, picture: Option<&str>, experiment: &Experiment, setup: &Setup) -> String {
    let requests = setup.requests.map(|requests| format!(" --requests {requests}")).unwrap_or_default();
    let quick = if report.quick { " --quick" } else { "" };
    let logs = if experiment.replays_logs { &setup.traces[..] } else { &[] };
    let traces: String = logs.iter().map(|log| format!(" --trace {}", plain_name(log))).collect();
    let disks = if experiment.needs == Needs::Log { setup.replay.arguments() } else { String::new() };
    let Report { name, shows, paper, seed, .. } = report;
    let mut page = format!(
        "# {name}\n\n{shows}; {paper}.\n\nMade by `tinaja lab {name}{quick} --seed {seed}{requests}{traces}{disks}`. Do not edit.\n"
    );
    if let Some(picture) = picture {
        // Writing into a String cannot fail.
        let _ = write!(page, "\n![{name}]({picture})\n");
    }
    for table in &report.tables {
        let _ = write!(page, "\n## {}\n\n", table.title);
        if !table.sentence.is_empty() {
            let _ = write!(page, "{}\n\n", table.sentence);
        }
        let _ = writeln!(page, "{}", grid(table, ASCII_MARKDOWN));
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
        "# The laboratory's pages\n\nEach page is one of the experiments that `tinaja lab` lists. `tinaja lab all \
         --docs docs/lab` generates them again. Pages that were made with logs name them, for `--trace`. Experiments \
         that need root must be run by name.\n\n| experiment | shows | paper |\n|---|---|---|\n",
    );
    for Experiment { name, shows, paper, .. } in experiments {
        let named = if has_page(name) { format!("[{name}]({name}.md)") } else { (*name).to_owned() };
        // Writing into a String cannot fail.
        let _ = writeln!(page, "| {named} | {shows} | {paper} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tinaja_store::engines;

    use super::*;
    use crate::experiment::{DiskPart, ReplayOptions};
    use crate::experiments;

    /// A page said that it was made without logs, and half of its tables were of logs: the command it named made another.
    #[test]
    fn a_page_names_the_command_that_makes_it_with_its_logs() {
        let report = Report {
            name: "n",
            shows: "s",
            paper: "p",
            quick: true,
            seed: 7,
            tables: Vec::new(),
            plots: Vec::new(),
            notes: Vec::new(),
        };
        let replay = experiments::find("replay").unwrap();
        let made = |setup: &Setup| page(&report, None, replay, setup);
        assert!(made(&Setup::default()).contains("Made by `tinaja lab n --quick --seed 7`."));
        let many = Setup { requests: Some(9), ..Setup::default() };
        assert!(made(&many).contains("`tinaja lab n --quick --seed 7 --requests 9`."));
        let logs = ["/var/log/site.tsv.gz", "b`a|<d\n.log"].map(PathBuf::from).to_vec();
        let (engines, disks) = (vec![engines::SEGMENTED], vec![DiskPart::Percent(2.5), DiskPart::Bytes(4096)]);
        let of_logs =
            Setup { traces: logs, replay: ReplayOptions { engines, disks, memory_bytes: 9 }, ..Setup::default() };
        let asked = " --trace site.tsv.gz --trace b_a__d_.log --engine segmented --disk 2.5% --disk 4096 --memory 9";
        assert!(made(&of_logs).contains(&format!("`tinaja lab n --quick --seed 7{asked}`.")), "{}", made(&of_logs));
        let another = page(&report, None, experiments::find("hashcache-index").unwrap(), &of_logs);
        assert!(another.contains("`tinaja lab n --quick --seed 7`."), "{another}");
    }
}
