//! Paths and digests of an archive's `Packages`, plain or compressed, in one pass and bounded memory.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::unpack::Unpack;
use crate::mirrors::sum::{Hash, Sum};

/// Bytes of a line at most that is looked at.
const MOST_LINE: usize = 1024;

/// Reads one. Memory: some 50 KB, and what [`Unpack`] takes.
#[derive(Debug)]
pub(super) struct Packages {
    unpack: Unpack,
    stanzas: Stanzas,
}

/// Paragraphs of fields.
#[derive(Debug, Default)]
struct Stanzas {
    line: Vec<u8>,
    file: Option<String>,
    sum: Option<Sum>,
}

impl Packages {
    /// `windows`: see [`Unpack::new`].
    pub fn new(windows: Arc<Semaphore>) -> Packages {
        Packages { unpack: Unpack::new(windows), stanzas: Stanzas::default() }
    }

    /// Reads the next piece. Each file is found by its path below the archive.
    pub fn push(&mut self, piece: &[u8], find: &mut dyn FnMut(&str, Sum)) {
        let Packages { unpack, stanzas } = self;
        unpack.push(piece, &mut |text| stanzas.push(text, find));
    }

    /// The last line may have no end.
    pub fn end(&mut self, find: &mut dyn FnMut(&str, Sum)) {
        let Packages { unpack, stanzas } = self;
        unpack.end(&mut |text| stanzas.push(text, find));
        stanzas.push(b"\n\n", find);
    }

    /// Whether it was not read, since too many are read at once.
    pub fn is_put_off(&self) -> bool {
        self.unpack.is_put_off()
    }
}

impl Stanzas {
    fn push(&mut self, mut piece: &[u8], find: &mut dyn FnMut(&str, Sum)) {
        while !piece.is_empty() {
            let end = piece.iter().position(|byte| *byte == b'\n');
            let (line, rest) = piece.split_at(end.unwrap_or(piece.len()));
            let room = (MOST_LINE + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(line.get(..room.min(line.len())).unwrap_or_default());
            piece = rest.get(1..).unwrap_or_default();
            if end.is_some() {
                self.end_line(find);
                self.line.clear();
            }
        }
    }

    fn end_line(&mut self, find: &mut dyn FnMut(&str, Sum)) {
        let line = self.line.trim_ascii_end();
        if line.is_empty() {
            (self.file, self.sum) = (None, None);
            return;
        }
        let value = |name: &[u8]| {
            let (field, value) = line.split_at_checked(name.len())?;
            let value = std::str::from_utf8(value.strip_prefix(b":")?).ok()?.trim();
            field.eq_ignore_ascii_case(name).then_some(value).filter(|_| self.line.len() <= MOST_LINE)
        };
        if let Some(file) = value(b"Filename") {
            self.file = Some(file.to_owned());
        } else if let Some(hex) = value(b"SHA256") {
            self.sum = Sum::hex(Hash::Sha256, hex);
        }
        if let (Some(file), Some(sum)) = (&self.file, self.sum) {
            find(file, sum);
            (self.file, self.sum) = (None, None);
        }
    }
}

#[cfg(test)]
#[path = "packages_tests.rs"]
mod tests;
