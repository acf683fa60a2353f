//! What the program says of itself: to stderr or a file, for people or as JSON.

use std::fs::File;
use std::io::{self, Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tinaja_logs::open_log;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::settings::LogTo;

/// Where lines go: a file that can be opened anew by its name.
#[derive(Clone, Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Arc<Mutex<File>>,
}

impl LogFile {
    /// Errors: what the system says if it cannot be opened.
    fn open(path: &Path) -> io::Result<LogFile> {
        Ok(LogFile { path: path.to_owned(), file: Arc::new(Mutex::new(open_log(path)?)) })
    }

    /// Opens the file anew by its name, for whoever rotates logs has renamed it. If it cannot be opened the one from before
    /// is written on, which is said there.
    pub fn reopen(&self) {
        let path = self.path.display();
        match open_log(&self.path) {
            Ok(file) => {
                *self.file.lock() = file;
                tracing::info!(%path, "the log was reopened");
            }
            Err(error) => {
                tracing::error!(%path, %error, "cannot reopen the log; writing continues to the old file")
            }
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.file.lock().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From now on says what the filter lets through. The file, if it is one.
///
/// Errors: the file cannot be opened.
pub fn begin(filter: &str, to: &LogTo) -> Result<Option<LogFile>> {
    let file = to.file.as_deref().map(LogFile::open).transpose();
    let file = file.with_context(|| format!("cannot open the log {}", shown(to)))?;
    let writer = match &file {
        Some(file) => {
            let file = file.clone();
            BoxMakeWriter::new(move || file.clone())
        }
        None => BoxMakeWriter::new(stderr),
    };
    // The filter was checked when it was read; what cannot be read now says nothing less.
    // `h2` would say what clients send, as often as they send it; whoever wants that asks for it by name.
    let filter = EnvFilter::try_new(format!("h2=off,{filter}")).unwrap_or_default();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    if to.json {
        // A panic would stand between the objects, which nobody could read then.
        std::panic::set_hook(Box::new(|panic| tracing::error!("panicked: {panic}")));
        lines.json().flatten_event(true).with_span_list(false).init();
    } else {
        lines.with_ansi(file.is_none()).init();
    }
    Ok(file)
}

fn shown(to: &LogTo) -> String {
    to.file.as_deref().unwrap_or(Path::new("stderr")).display().to_string()
}
