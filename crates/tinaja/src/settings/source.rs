//! Where in a configuration file something stands.

use std::ops::Range;

/// A file, and what is in it.
pub struct Source<'a> {
    /// Its name, as it is told.
    pub name: &'a str,
    /// All of it.
    pub text: &'a str,
}

impl Source<'_> {
    /// The number of the line on which something begins.
    pub fn line(&self, at: &Range<usize>) -> usize {
        self.text.get(..at.start).unwrap_or_default().matches('\n').count() + 1
    }

    /// An error with the line that it is about.
    pub fn error(&self, at: Range<usize>, what: impl std::fmt::Display) -> anyhow::Error {
        anyhow::anyhow!("{}, line {}: {what}", self.name, self.line(&at))
    }
}
