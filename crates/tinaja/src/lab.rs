//! `tinaja lab`: experiments, and where their reports go.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tinaja_lab::show::{Came, Ran};
use tinaja_lab::{Experiment, Needs, ReplayOptions, Report, Setup, experiments, show};

use crate::flags::Lab;

/// Where `lab all --quick` writes its page.
const REPORT: &str = "tinaja-lab.html";

/// Experiments that start other servers.
const WITH_SERVERS: [&str; 2] = ["peers", "policies-peers"];

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
    if flags.resume.is_some()
        && let Some(other) = chosen.iter().find(|experiment| !experiment.resumes)
    {
        bail!("--resume does not work with {}: it works with maltzahn-layouts and maltzahn-squid", other.name);
    }
    if !flags.servers.is_empty()
        && let Some(other) = chosen.iter().find(|experiment| !WITH_SERVERS.contains(&experiment.name))
    {
        bail!("--servers works with {} only, not with {}", WITH_SERVERS.join(" and "), other.name);
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
        resume: flags.resume.clone(),
        servers: flags.servers.clone(),
        ..standard
    };
    let is_all = name == "all";
    let page = flags.report.clone().or_else(|| (is_all && flags.quick).then(|| PathBuf::from(REPORT)));
    // A page that cannot be written is known before hours of work.
    if let Some(file) = &page {
        OpenOptions::new().create(true).append(true).open(file).with_context(|| {
            format!(
                "cannot write {}: name a file in a directory that you may write to with --report FILE",
                file.display()
            )
        })?;
    }
    let mut ran = Vec::new();
    for experiment in &chosen {
        let came = match experiment.needs.missing().filter(|_| is_all) {
            Some(why) => {
                tracing::warn!("skipping {}: {why}", experiment.name);
                Came::LeftOut(why)
            }
            None => match run_one(&flags, experiment, &setup).with_context(|| experiment.name.to_owned()) {
                Ok(came) => came,
                // The page says it, and what comes after it goes on.
                Err(error) if page.is_some() && is_all => {
                    tracing::error!("{error:#}");
                    Came::Failed(format!("{error:#}"))
                }
                Err(error) => return Err(error),
            },
        };
        ran.push(Ran { name: experiment.name, shows: experiment.shows, came });
    }
    if let Some(file) = &page {
        fs::write(file, show::html(&ran)?).with_context(|| format!("cannot write {}", file.display()))?;
        tracing::info!("all reports are in {}", file.display());
    }
    let failed: Vec<_> = ran.iter().filter(|ran| matches!(ran.came, Came::Failed(_))).map(|ran| ran.name).collect();
    if failed.is_empty() { Ok(()) } else { bail!("these experiments failed: {}", failed.join(", ")) }
}

/// Carry an experiment out, and show its report. Errors: it failed, or its report cannot be shown.
fn run_one(flags: &Lab, experiment: &Experiment, setup: &Setup) -> Result<Came> {
    let (report, took) = experiment.timed(setup)?;
    show_one(flags, &report, experiment, setup)?;
    Ok(Came::Report(report, took))
}

/// Print a report, and write what was asked for of it.
fn show_one(flags: &Lab, report: &Report, experiment: &Experiment, setup: &Setup) -> Result<()> {
    let json = || serde_json::to_string_pretty(report).map(|text| text + "\n");
    say(&if flags.json { json()? } else { show::text(report) })?;
    if let Some(file) = &flags.plot {
        show::draw(report, file)?;
    }
    match &flags.docs {
        Some(dir) => document(report, dir, experiment, setup),
        None => Ok(()),
    }
}

/// The experiment of this name, or all.
fn chosen(name: &str) -> Result<Vec<Experiment>> {
    if name == "all" {
        return Ok(experiments::all().to_vec());
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
    ];
    if let Some(log) = &flags.access_log {
        bail!("only replay takes a log without a flag: give {} its log with --trace {}", other.name, log.display());
    }
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
