//! `tinaja lab`: experiments, and where their reports go.

use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::path::Path;

use anyhow::{Context, Result, bail};
use tinaja_lab::{Experiment, Needs, ReplayOptions, Report, Setup, experiments, show};

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
        bail!(
            "--requests does not work with {}: it works with replay, the maltzahn experiments and damelo-proxy",
            other.name
        );
    }
    only_replay_takes(&flags, &chosen)?;
    let standard = Setup::default();
    let setup = Setup {
        quick: flags.quick,
        seed: flags.seed.unwrap_or(standard.seed),
        requests: flags.requests.map(|requests| requests as usize),
        traces: flags.access_log.iter().chain(&flags.trace).cloned().collect(),
        replay: ReplayOptions {
            engines: flags.engine.clone(),
            disks: flags.disk.iter().map(|disk| disk.0).collect(),
            memory_bytes: flags.memory.map_or(standard.replay.memory_bytes, |memory| memory.0),
        },
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
            document(&report, dir, experiment, &setup)?;
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

/// A disk, an engine and memory are for `replay`. Errors: one was given to another experiment.
fn only_replay_takes(flags: &Lab, chosen: &[Experiment]) -> Result<()> {
    let Some(other) = chosen.iter().find(|experiment| experiment.needs != Needs::Log) else { return Ok(()) };
    let given = [
        ("--engine", !flags.engine.is_empty()),
        ("--disk", !flags.disk.is_empty()),
        ("--memory", flags.memory.is_some()),
        ("a log behind the name", flags.access_log.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => bail!("{flag} works with replay only, not with {}", other.name),
        None => Ok(()),
    }
}

/// Write a report's page and picture, and the page that leads to all.
fn document(report: &Report, dir: &Path, experiment: &Experiment, setup: &Setup) -> Result<()> {
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let picture = (!report.plots.is_empty()).then(|| format!("{}.svg", report.name));
    if let Some(picture) = &picture {
        show::draw(report, &dir.join(picture))?;
    }
    write(&format!("{}.md", report.name), show::page(report, picture.as_deref(), experiment, setup))?;
    write("README.md", show::contents(experiments::all(), |name| dir.join(format!("{name}.md")).exists()))
}

fn say(text: &str) -> Result<()> {
    match stdout().write_all(text.as_bytes()) {
        // Whoever reads through `head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
