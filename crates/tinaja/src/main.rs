//! The `tinaja` binary: flags in, one exit code out.
//!
//! Exit codes: 0 done, 1 failed, 2 asked for in a way that makes no sense.

mod check;
mod control;
mod flags;
mod generate;
mod inspect;
mod lab;
mod notify;
mod place;
mod purge;
mod reload;
mod report;
mod serve;
mod settings;
mod tune;
mod upgrade;
mod welcome;

use std::io::{Write, stderr};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::flags::{Action, Flags};
use crate::settings::{DEFAULT_LOG, Settings};

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
    match flags.action {
        Action::Serve(serve) => {
            let (check, take_over) = (serve.check, serve.take_over);
            let log_filter = flags.log;
            let read = move || Settings::new((*serve).clone(), log_filter.clone());
            let settings = read()?;
            log(&settings.log);
            tinaja_proxy::count_panics();
            if check { check::check(&settings) } else { serve::serve(settings, take_over, read) }
        }
        Action::Inspect(inspect) => {
            log(flags.log.as_ref().map_or(DEFAULT_LOG, |filter| &filter.0));
            inspect::inspect(inspect)
        }
        Action::Tune(tune) => {
            log(flags.log.as_ref().map_or(DEFAULT_LOG, |filter| &filter.0));
            tune::tune(&tune)
        }
        Action::Reload(reload) => {
            log(flags.log.as_ref().map_or(DEFAULT_LOG, |filter| &filter.0));
            reload::reload(reload)
        }
        Action::Upgrade(upgrade) => {
            log(flags.log.as_ref().map_or(DEFAULT_LOG, |filter| &filter.0));
            upgrade::upgrade(upgrade)
        }
        Action::Purge(purge) => {
            log(flags.log.as_ref().map_or(DEFAULT_LOG, |filter| &filter.0));
            purge::purge(purge)
        }
        Action::Lab(lab) => {
            log(flags.log.as_ref().map_or(DEFAULT_LOG, |filter| &filter.0));
            lab::lab(lab)
        }
        Action::Generate(generate) => generate::generate(&generate),
    }
}

/// Says what the filter lets through on stderr.
fn log(filter: &str) {
    // The filter was checked when it was read; what cannot be read now says nothing less.
    // `h2` would say what clients send, as often as they send it; whoever wants that asks for it by name.
    let filter = EnvFilter::try_new(format!("h2=off,{filter}")).unwrap_or_default();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).init();
}
