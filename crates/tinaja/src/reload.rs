//! `tinaja reload`: have the server that runs on a cache read its settings again.

use std::io::{ErrorKind, Write, stdout};

use anyhow::{Context, Result, bail};
use tinaja_proxy::admin::words::{Answer, Ask};

use crate::control;
use crate::flags::Reload;
use crate::settings;

/// Have it done, and say what waits for the next start.
///
/// Errors: no server runs there, or it keeps the settings from before, and why.
pub fn reload(flags: Reload) -> Result<()> {
    let dirs = settings::cache_dirs(flags.cache, flags.config.as_deref())?;
    let said = match control::ask(&dirs, &Ask::Reload).context("the old settings stay in use")? {
        Some(Answer::Reloaded { later }) if later.is_empty() => "the new settings are in use".to_owned(),
        Some(Answer::Reloaded { later }) => {
            format!(
                "the new settings are in use, except for these, which wait for the next start: {}",
                later.join(", ")
            )
        }
        Some(_) => bail!("the server sent an unexpected answer: it may be another version"),
        None => bail!("no server runs on this cache; choose another one with --cache or --config"),
    };
    match writeln!(stdout(), "{said}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
