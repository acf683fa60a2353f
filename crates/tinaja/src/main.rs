//! The `tinaja` binary: flags in, one exit code out.
//!
//! Exit codes: 0 done, 1 failed, 2 asked for in a way that makes no sense.

mod flags;
mod inspect;
mod place;
mod report;
mod serve;
mod welcome;

use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::flags::{Action, Flags};

fn main() -> ExitCode {
    let flags = Flags::parse();
    // The filter was checked with the other flags; what cannot be read now says nothing less.
    let filter = EnvFilter::try_new(&flags.log).unwrap_or_default();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).init();
    let done = match flags.action {
        Action::Serve(serve) => serve::serve(*serve),
        Action::Inspect(inspect) => inspect::inspect(inspect),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With stderr closed there is nobody to tell but the exit code.
            let _ = writeln!(stderr(), "tinaja: {error:#}");
            ExitCode::FAILURE
        }
    }
}
