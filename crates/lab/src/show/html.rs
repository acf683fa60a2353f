//! All reports as one page of HTML: pictures within it, and nothing from elsewhere.

use std::fmt::Write;
use std::time::Duration;

use super::picture::svg;
use crate::error::LabError;
use crate::report::{Cell, Report, Table};

/// An experiment, and what became of it.
pub struct Ran {
    /// Its name, and what it shows.
    pub name: &'static str,
    /// See [`Ran::name`].
    pub shows: &'static str,
    /// What became of it.
    pub came: Came,
}

/// What became of an experiment.
pub enum Came {
    /// A report, after so long.
    Report(Report, Duration),
    /// It was not carried out, and why.
    LeftOut(String),
    /// It failed, and how.
    Failed(String),
}

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:1200px;margin:0 auto;padding:0 16px;color:#111;background:#fff}\
h2{margin-top:3em;border-top:1px solid #999;padding-top:1em}svg{max-width:100%;height:auto}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:14px;margin:.5em 0}caption{text-align:left;font-weight:bold;padding:.3em 0}\
th,td{padding:2px 10px;border-bottom:1px solid #ddd;text-align:left;white-space:nowrap}th{vertical-align:bottom;white-space:normal}\
.list td:nth-child(2){white-space:normal}.number{text-align:right;font-variant-numeric:tabular-nums}summary{cursor:pointer;margin:.5em 0}";

/// The page. Memory: the page and one picture, beside the reports. Errors: a plot cannot be drawn.
pub fn html(ran: &[Ran]) -> Result<String, LabError> {
    let reports = || {
        ran.iter().filter_map(|ran| match &ran.came {
            Came::Report(report, took) => Some((report, *took)),
            Came::LeftOut(_) | Came::Failed(_) => None,
        })
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Tinaja's laboratory</title><style>{STYLE}</style></head><body>\n<h1>Tinaja's laboratory</h1>\n\
         <p>Experiments of <code>tinaja lab</code>, which took {}. Where an experiment repeats a table or a figure of a paper, the \
         paper's numbers stand beside ours. Below each experiment is how it was measured.</p>\n<div class=\"wide\"><table class=\"list\">\
         <tr><th>experiment</th><th>shows</th><th class=\"number\">time</th></tr>\n",
        time(reports().map(|(_, took)| took).sum())
    );
    for Ran { name, shows, came } in ran {
        // Writing into a String cannot fail.
        let _ = match came {
            Came::Report(_, took) => writeln!(
                page,
                "<tr><td><a href=\"#{name}\">{name}</a></td><td>{}</td><td class=\"number\">{}</td></tr>",
                escaped(shows),
                time(*took)
            ),
            Came::LeftOut(why) => without_report(&mut page, (name, shows), "Left out", why),
            Came::Failed(why) => without_report(&mut page, (name, shows), "It failed", why),
        };
    }
    page.push_str("</table></div>\n");
    for (report, _) in reports() {
        one(&mut page, report)?;
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

fn without_report(page: &mut String, (name, shows): (&str, &str), what: &str, why: &str) -> std::fmt::Result {
    let (shows, why) = (escaped(shows), escaped(why));
    writeln!(page, "<tr><td>{name}</td><td>{shows}<br><em>{what}: {why}.</em></td><td></td></tr>")
}

fn one(page: &mut String, report: &Report) -> Result<(), LabError> {
    let Report { name, shows, paper, quick, seed, .. } = report;
    let size = if *quick { "Small disks and few requests" } else { "Full size" };
    let _ = write!(
        page,
        "<h2 id=\"{name}\">{name}</h2>\n<p>{}. <em>{}.</em> {size}, seed {seed}.</p>\n",
        sentence(shows),
        escaped(paper)
    );
    for plot in &report.plots {
        page.push_str(&svg(report, plot)?);
        page.push('\n');
    }
    for shown in &report.tables {
        table(page, shown);
    }
    if !report.notes.is_empty() {
        page.push_str("<details><summary>How it was measured, and why it differs</summary>\n<ul>\n");
        for note in &report.notes {
            let _ = writeln!(page, "<li>{}</li>", escaped(note));
        }
        page.push_str("</ul></details>\n");
    }
    Ok(())
}

fn table(page: &mut String, table: &Table) {
    let _ = write!(page, "<div class=\"wide\"><table><caption>{}</caption><tr>", escaped(&table.title));
    for column in &table.columns {
        let _ = write!(page, "<th>{}</th>", escaped(column));
    }
    page.push_str("</tr>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for cell in row {
            let class = if matches!(cell, Cell::Text(_)) { "" } else { " class=\"number\"" };
            let _ = write!(page, "<td{class}>{}</td>", escaped(&cell.to_string()));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
    if !table.sentence.is_empty() {
        let _ = writeln!(page, "<p>{}</p>", escaped(&table.sentence));
    }
}

/// With a capital letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    escaped(&(first + letters.as_str()))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn time(took: Duration) -> String {
    match took.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Plot, Series};

    #[test]
    fn a_page_has_all_that_reports_hold_and_nothing_from_elsewhere() {
        let mut table = Table::new("Numbers < 7", &["name", "bits"]);
        table.row(["<script>".into(), Cell::number(47.04, 1)]);
        let series = vec![Series::new("measured", [(1.0, 2.0), (2.0, 3.0)]), Series::new("paper & more", [(1.0, 1.0)])];
        let plots = vec![Plot::Lines { title: "A curve".into(), x: "k".into(), y: "bits".into(), series }];
        let (tables, notes) = (vec![table], vec!["A reason & another.".to_owned()]);
        let report =
            Report { name: "n", shows: "what it shows", paper: "p", quick: true, seed: 7, tables, plots, notes };
        let left_out = Ran { name: "root", shows: "disks", came: Came::LeftOut("it needs root".to_owned()) };
        let failed = Ran { name: "bad", shows: "disks", came: Came::Failed("no <disk>".to_owned()) };
        let ran = Ran { name: "n", shows: "what", came: Came::Report(report, Duration::from_secs(130)) };
        let page = html(&[ran, left_out, failed]).unwrap();
        for part in [
            "which took 3 min",
            "<td class=\"number\">3 min</td>",
            "Left out: it needs root.",
            "It failed: no &lt;disk&gt;.",
            "<h2 id=\"n\">",
            "What it shows.",
            "Numbers &lt; 7",
            "<td>&lt;script&gt;</td><td class=\"number\">47.0</td>",
            "A reason &amp; another.",
            "A curve",
            "<svg ",
        ] {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("<?xml"), "{page}");
        assert_eq!(page.matches("<svg ").count(), page.matches("</svg>").count());
    }
}
