//! `tinaja lab`: experiments, and where their reports go.

use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tinaja_lab::{Experiment, Report, Setup, experiments, show};

use crate::flags::Lab;

/// Run what was asked for and show it. Errors: there is no such experiment, it failed, or its report cannot be written.
pub fn lab(flags: Lab) -> Result<()> {
    let Some(name) = &flags.name else {
        return say(&format!(
            "{}\nrun one with: tinaja lab NAME [--quick] [--json] [--plot FILE]\n",
            show::list(experiments::all())
        ));
    };
    let chosen = chosen(name)?;
    if flags.plot.is_some() && chosen.len() > 1 {
        bail!("--plot works with a single experiment: for all of them use --docs DIR");
    }
    if flags.requests.is_some()
        && let Some(other) = chosen.iter().find(|experiment| !experiment.takes_requests)
    {
        bail!("--requests does not work with {}: it works with the maltzahn experiments and damelo-proxy", other.name);
    }
    let standard = Setup::default();
    let setup = Setup {
        quick: flags.quick,
        seed: flags.seed.unwrap_or(standard.seed),
        requests: flags.requests.map(|requests| requests as usize),
        traces: flags.trace.clone(),
        ..standard
    };
    for experiment in &chosen {
        let report = (experiment.run)(&setup).with_context(|| experiment.name.to_owned())?;
        let json = || serde_json::to_string_pretty(&report).map(|text| text + "\n");
        say(&if flags.json { json()? } else { show::text(&report) })?;
        if let Some(file) = &flags.plot {
            show::draw(&report, file)?;
        }
        if let Some(dir) = &flags.docs {
            document(&report, dir, setup.requests, if experiment.replays_logs { &flags.trace } else { &[] })?;
        }
    }
    Ok(())
}

/// The experiment of this name, or all that do not want root and the machine for themselves.
fn chosen(name: &str) -> Result<Vec<Experiment>> {
    if name == "all" {
        let can_be_run = |experiment: &&Experiment| {
            let missing = experiment.needs.missing();
            missing.iter().for_each(|why| tracing::warn!("skipping {}: {why}", experiment.name));
            missing.is_none()
        };
        return Ok(experiments::all().iter().filter(can_be_run).copied().collect());
    }
    match experiments::find(name) {
        Some(experiment) => Ok(vec![*experiment]),
        None => bail!("unknown experiment {name:?}; `tinaja lab` lists them"),
    }
}

/// Write a report's page and picture, and the page that leads to all. So many `requests` were asked for, and `logs` were replayed for it.
fn document(report: &Report, dir: &Path, requests: Option<usize>, logs: &[PathBuf]) -> Result<()> {
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let picture = (!report.plots.is_empty()).then(|| format!("{}.svg", report.name));
    if let Some(picture) = &picture {
        show::draw(report, &dir.join(picture))?;
    }
    write(&format!("{}.md", report.name), show::page(report, picture.as_deref(), requests, logs))?;
    write("README.md", show::contents(experiments::all(), |name| dir.join(format!("{name}.md")).exists()))
}

fn say(text: &str) -> Result<()> {
    match stdout().write_all(text.as_bytes()) {
        // Whoever reads through `head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
