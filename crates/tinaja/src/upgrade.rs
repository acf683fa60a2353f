//! `tinaja upgrade`: have the server that runs on a cache start its successor, and hand over to it. Both ends of it: the command,
//! and what the server does.

use std::env;
use std::ffi::OsString;
use std::io::{ErrorKind, Write, stdout};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tinaja_proxy::admin::Successor;
use tinaja_proxy::admin::words::{Answer, Ask};

use crate::control;
use crate::flags::Upgrade;
use crate::settings;

/// The flag that makes `serve` take over.
const TAKE_OVER: &str = "--take-over";

/// Have it done, and say who serves now.
///
/// Errors: no server runs there, or it serves on, and why.
pub fn upgrade(flags: Upgrade) -> Result<()> {
    let dirs = settings::cache_dirs(flags.cache, flags.config.as_deref())?;
    let said = match control::ask(&dirs, &Ask::Upgrade)? {
        Some(Answer::Upgraded { process }) => format!("process {process} serves from now on"),
        Some(_) => bail!("the server sent an unexpected answer: it may be another version"),
        None => bail!("no server runs on this cache; choose another one with --cache or --config"),
    };
    match writeln!(stdout(), "{said}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// How this process is started once more, to be found out at its start: the program in its place may be a newer one later.
/// Nothing where the system does not say which program this is.
pub fn successor() -> Option<Successor> {
    let program = env::current_exe().ok()?;
    let flags: Vec<OsString> = env::args_os().skip(1).filter(|flag| flag != TAKE_OVER).collect();
    Some(Arc::new(move || {
        let command = |last: &str| {
            let mut command = Command::new(&program);
            command.args(&flags).arg(last).stdin(Stdio::null());
            command
        };
        let not_started = |error| format!("cannot start {}: {error}", program.display());
        // By itself first: what it says is then told to whoever asked.
        let checked = command("--check").env_remove("NOTIFY_SOCKET").output().map_err(not_started)?;
        if !checked.status.success() {
            let said = String::from_utf8_lossy(&checked.stderr);
            return Err(format!("{} --check: {}", program.display(), said.trim()));
        }
        command(TAKE_OVER).spawn().map_err(not_started)
    }))
}

/// No process is started from within a sandbox; whoever asks is told what to do.
pub fn none_in_a_sandbox() -> Successor {
    let why = "this server is in a sandbox (sandbox = true) and may start no programs: start its successor from outside, with the flags of \
               this server and --take-over, as in `tinaja serve --config FILE --take-over`";
    Arc::new(move || Err(why.to_owned()))
}
