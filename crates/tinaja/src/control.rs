//! Asking the server that runs on a cache, if one does.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tinaja_proxy::admin::socket;
use tinaja_proxy::admin::words::{Answer, Ask};

/// A server takes half a minute at most; more is a server that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// But for one that starts another process and waits for it.
const UPGRADE_PATIENCE: Duration = Duration::from_secs(240);
/// No answer is longer.
const MOST_ANSWER_BYTES: u64 = 64 << 20;

/// What the server of a cache answers; nothing where none runs.
///
/// Errors: it refused or failed, in its words; it cannot be reached, or what it says makes no sense.
pub fn ask(dirs: &[PathBuf], ask: &Ask) -> Result<Option<Answer>> {
    match answer(dirs, ask)? {
        Some(Answer::Failed { why }) => bail!("the server refused or failed: {why}"),
        answer => Ok(answer),
    }
}

/// The same where a refusal or failure is an answer like others.
///
/// Errors: the server cannot be reached, or what it says makes no sense.
pub fn answer(dirs: &[PathBuf], ask: &Ask) -> Result<Option<Answer>> {
    let Some(dir) = dirs.first() else { return Ok(None) };
    ask_in(dir, ask).with_context(|| format!("asking the server through {}", dir.join(socket::NAME).display()))
}

fn ask_in(dir: &Path, ask: &Ask) -> Result<Option<Answer>> {
    let connected = socket::connect(dir).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            anyhow!("the server belongs to another user: run this command as that user, or as root")
        }
        _ => anyhow!(error),
    });
    let Some(mut stream) = connected? else { return Ok(None) };
    let patience = if *ask == Ask::Upgrade { UPGRADE_PATIENCE } else { PATIENCE };
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    stream.write_all(&line).context("it does not accept requests")?;
    let mut answer = String::new();
    BufReader::new(stream.take(MOST_ANSWER_BYTES)).read_line(&mut answer).context("it does not answer")?;
    if answer.is_empty() {
        bail!("it closed the connection without an answer; it may be stopping");
    }
    serde_json::from_str(&answer).map(Some).context("it sent an unknown answer: it may be another version")
}
