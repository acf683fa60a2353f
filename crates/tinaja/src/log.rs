//! What the program says of itself: to stderr or a file, for people or as JSON.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tinaja_logs::open_log;
use tracing::field::{Field, Visit};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
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
        lines.fmt_fields(LineFields).with_ansi(file.is_none()).init();
    }
    Ok(file)
}

fn shown(to: &LogTo) -> String {
    to.file.as_deref().unwrap_or(Path::new("stderr")).display().to_string()
}

/// Writes fields as [`DefaultFields`] does, and the id of a request, which is written for each that is not a plain hit, with two fifths of the instructions.
struct LineFields;

impl<'writer> FormatFields<'writer> for LineFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut id = IdAlone::default();
        fields.record(&mut id);
        match id.text.filter(|_| !id.has_others) {
            Some(id) => {
                writer.write_str(if writer.has_ansi_escapes() { ID_IN_COLOUR } else { "id=" })?;
                writer.write_str(&id)
            }
            None => DefaultFields::new().format_fields(writer, fields),
        }
    }
}

/// The field's name in italics, and a dim sign behind it.
const ID_IN_COLOUR: &str = "\x1b[3mid\x1b[0m\x1b[2m=\x1b[0m";

/// What a field called `id` says, and whether there are others.
#[derive(Default)]
struct IdAlone {
    text: Option<String>,
    has_others: bool,
}

impl Visit for IdAlone {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "id" {
            self.has_others = true;
            return;
        }
        let mut text = String::with_capacity(16);
        self.has_others |= write!(text, "{value:?}").is_err();
        self.text = Some(text);
    }
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::with_default;

    use super::*;

    /// Lines that are said within spans, as this program writes them or as the library does.
    fn lines(ours: bool, ansi: bool) -> String {
        let said = Arc::new(Mutex::new(Vec::new()));
        let writer = said.clone();
        let to = tracing_subscriber::fmt().without_time().with_ansi(ansi).with_writer(move || Said(writer.clone()));
        let say = || {
            let id = "00ff";
            tracing::error_span!("request", id = %id).in_scope(|| tracing::warn!(path = "x", "slow"));
            tracing::error_span!("request", %id, other = 1).in_scope(|| tracing::warn!(id, "slow"));
            tracing::error_span!("request").in_scope(|| tracing::warn!(id = %id));
        };
        match ours {
            true => with_default(to.fmt_fields(LineFields).finish(), say),
            false => with_default(to.finish(), say),
        }
        let said = said.lock();
        String::from_utf8_lossy(&said).into_owned()
    }

    struct Said(Arc<Mutex<Vec<u8>>>);

    impl Write for Said {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn ids_are_written_as_the_library_writes_them() {
        for ansi in [false, true] {
            assert_eq!(lines(true, ansi), lines(false, ansi));
            assert!(lines(true, ansi).contains("00ff"));
        }
    }
}
