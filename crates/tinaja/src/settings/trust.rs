//! `ca_file` and `crl_file`: whose signature on an origin's certificate counts beside the system's authorities, and what has been revoked.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tinaja_proxy::{BadCertificate, Trust};
use toml::Spanned;

use super::source::Source;
use crate::values::OneOrMore;

type Files = Option<Spanned<OneOrMore<PathBuf>>>;

/// What these files say.
///
/// Errors: one of them cannot be read, or is of no use; with the line of the setting.
pub fn trust(authorities: Files, lists: Files, source: &Source<'_>) -> Result<Trust> {
    let mut trust = Trust::default();
    add(authorities, source, |path| trust.add_authorities(path))?;
    add(lists, source, |path| trust.add_revoked(path))?;
    Ok(trust)
}

fn add(files: Files, source: &Source<'_>, mut add: impl FnMut(&Path) -> Result<(), BadCertificate>) -> Result<()> {
    let Some(files) = files else { return Ok(()) };
    let at = files.span();
    for path in files.into_inner().0 {
        add(&path).map_err(|bad| source.error(at.clone(), bad))?;
    }
    Ok(())
}
