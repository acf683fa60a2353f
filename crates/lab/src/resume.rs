//! Rows of an experiment that takes hours, kept as soon as they are measured, so that a run that is cut off goes on where it was.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::LabError;

/// A directory of rows: a file of JSON for each, with all that the row depends on beside it.
pub struct Rows {
    experiment: &'static str,
    dir: Option<PathBuf>,
}

/// A row's file.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    /// The release that measured it: another may measure something else.
    release: String,
    /// What else the row depends on.
    of: String,
    row: T,
}

impl Rows {
    /// Those of an experiment in this directory; without one, nothing is kept. Errors: it cannot be made.
    pub fn of(experiment: &'static str, dir: Option<&Path>) -> Result<Rows, LabError> {
        if let Some(dir) = dir {
            fs::create_dir_all(dir)
                .map_err(|why| LabError::failed("creating the directory of --resume", named(dir, &why)))?;
        }
        Ok(Rows { experiment, dir: dir.map(Path::to_path_buf) })
    }

    /// The row that depends on `of` and nothing else: as it was kept, else as `measure` finds it, which is then kept. A file that cannot be
    /// read, or is of another release, is measured anew and replaced. Errors: those of `measure`; the row cannot be written.
    pub fn row<T: Serialize + DeserializeOwned>(
        &self,
        of: &str,
        measure: impl FnOnce() -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let Some(dir) = &self.dir else { return measure() };
        let file = dir.join(format!("{}, {}.json", self.experiment, file_name(of)));
        match read(&file, of) {
            Ok(Some(row)) => {
                tracing::info!("{of}: measured before, {}", file.display());
                return Ok(row);
            }
            Ok(None) => {}
            Err(why) => tracing::warn!("{} is measured again: {why}", file.display()),
        }
        let kept = Kept { release: release(), of: of.to_owned(), row: measure()? };
        write(dir, &file, &kept).map_err(|why| LabError::failed("keeping a row for --resume", named(&file, &why)))?;
        Ok(kept.row)
    }
}

fn named(file: &Path, why: &std::io::Error) -> String {
    format!("{}: {why}", file.display())
}

fn release() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Nothing that a file system takes for more than a letter; long ones would be refused, and nothing here comes near that.
fn file_name(of: &str) -> String {
    of.chars().map(|letter| if letter.is_alphanumeric() || " ,.=-".contains(letter) { letter } else { '_' }).collect()
}

/// `None` if there is no such file. Errors: why it is of no use.
fn read<T: DeserializeOwned>(file: &Path, of: &str) -> Result<Option<T>, String> {
    let text = match fs::read_to_string(file) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|why| why.to_string())?,
    };
    let kept: Kept<T> = serde_json::from_str(&text).map_err(|why| why.to_string())?;
    if kept.release != release() {
        return Err(format!("it is of release {}, and this is {}", kept.release, release()));
    }
    if kept.of != of {
        return Err(format!("it is of {:?}", kept.of));
    }
    Ok(Some(kept.row))
}

/// Whole or not at all.
fn write<T: Serialize>(dir: &Path, file: &Path, kept: &Kept<T>) -> std::io::Result<()> {
    let mut part = NamedTempFile::new_in(dir)?;
    part.write_all(&serde_json::to_vec_pretty(kept)?)?;
    part.as_file().sync_all()?;
    part.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Result<u64, LabError> {
        Err(LabError::failed("measuring", "it was measured again"))
    }

    #[test]
    fn a_row_is_measured_once() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Rows::of("test", Some(&dir.path().join("rows"))).unwrap();
        assert_eq!(rows.row("a/b: 1", || Ok(1)).unwrap(), 1);
        assert_eq!(rows.row("a/b: 1", nothing).unwrap(), 1);
        assert_eq!(rows.row("a_b: 1", || Ok(2)).unwrap(), 2, "another row with a file of the same name");
        assert_eq!(rows.row("a/b: 1", || Ok(3)).unwrap(), 3);
        let other = Rows::of("other", Some(&dir.path().join("rows"))).unwrap();
        assert_eq!(other.row("a/b: 1", || Ok(4)).unwrap(), 4, "of another experiment");
        assert_eq!(rows.row("a/b: 1", nothing).unwrap(), 3);
    }

    #[test]
    fn what_failed_is_not_kept_and_what_is_damaged_is_measured_again() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Rows::of("test", Some(dir.path())).unwrap();
        assert!(rows.row("row", nothing).is_err());
        assert_eq!(rows.row("row", || Ok(1)).unwrap(), 1);
        let file = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        for damaged in [&text[..text.len() / 2], "", &text.replace(&release(), "0.0.1"), &text.replace(": 1", ": []")] {
            fs::write(&file, damaged).unwrap();
            assert_eq!(rows.row("row", || Ok(2)).unwrap(), 2, "{damaged}");
            fs::write(&file, &text).unwrap();
            assert_eq!(rows.row("row", nothing).unwrap(), 1);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn without_a_directory_nothing_is_kept() {
        let rows = Rows::of("test", None).unwrap();
        assert_eq!(rows.row("row", || Ok(1)).unwrap(), 1);
        assert_eq!(rows.row("row", || Ok(2)).unwrap(), 2);
    }

    #[test]
    fn where_no_directory_can_be_made_that_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let why = Rows::of("test", Some(&file.path().join("rows"))).err().unwrap().to_string();
        assert!(why.contains("--resume"), "{why}");
    }
}
