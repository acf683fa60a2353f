//! The `tinaja` binary: flags in, one exit code out.
//!
//! Exit codes: 0 done, 1 failed, 2 asked for in a way that makes no sense.
#![forbid(unsafe_code)]

mod ca;
mod check;
mod cluster;
mod control;
mod explain;
mod flags;
mod generate;
mod heap;
mod inspect;
mod intercept_hints;
mod knobs;
mod lab;
mod limits;
mod log;
mod mirror_flags;
mod notify;
mod place;
mod purge;
mod reload;
mod report;
mod resize;
mod sandbox;
mod serve;
mod settings;
mod tune;
mod upgrade;
mod values;
mod welcome;

use std::io::{Write, stderr};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::flags::{Action, Flags};
use crate::settings::{DEFAULT_LOG, LogTo, Settings};

fn main() -> ExitCode {
    match run(Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With stderr closed there is nobody to tell but the exit code.
            let _ = writeln!(stderr(), "tinaja: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: Flags) -> Result<()> {
    let filter = flags.log.clone();
    let to_stderr = || log::begin(filter.as_ref().map_or(DEFAULT_LOG, |filter| &filter.0), &LogTo::default());
    match flags.action {
        Action::Serve(serve) => {
            let (check, take_over) = (serve.check, serve.take_over);
            let log_filter = flags.log;
            let read = move || {
                sandbox::may_read(serve.config.as_deref())?;
                Settings::new((*serve).clone(), log_filter.clone())
            };
            let settings = read()?;
            if check {
                log::begin(&settings.log, &LogTo::default())?;
                return check::check(&settings);
            }
            let file = log::begin(&settings.log, &settings.log_to)?;
            tinaja_proxy::count_panics();
            serve::serve(settings, take_over, file, read)
        }
        Action::Inspect(inspect) => {
            to_stderr()?;
            inspect::inspect(inspect)
        }
        Action::Tune(tune) => {
            to_stderr()?;
            tune::tune(&tune)
        }
        Action::Reload(reload) => {
            to_stderr()?;
            reload::reload(reload)
        }
        Action::Upgrade(upgrade) => {
            to_stderr()?;
            upgrade::upgrade(upgrade)
        }
        Action::Purge(purge) => {
            to_stderr()?;
            purge::purge(purge)
        }
        Action::Resize(resize) => {
            to_stderr()?;
            resize::resize(*resize)
        }
        Action::Explain(explain) => {
            to_stderr()?;
            explain::explain(explain)
        }
        Action::Cluster(cluster) => {
            to_stderr()?;
            cluster::cluster(cluster)
        }
        Action::Lab(lab) => {
            to_stderr()?;
            lab::lab(lab)
        }
        Action::Ca(flags) => {
            to_stderr()?;
            ca::ca(flags)
        }
        Action::InterceptHints(flags) => {
            to_stderr()?;
            intercept_hints::intercept_hints(flags)
        }
        Action::Generate(generate) => generate::generate(&generate),
    }
}
