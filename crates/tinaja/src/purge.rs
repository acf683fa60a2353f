//! `tinaja purge`: forget what is stored under URLs, in the cache of a server that runs or in one that is stopped.

use std::io::{ErrorKind, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tinaja_proxy::admin::words::{Answer, Ask};
use tinaja_proxy::admin::{Url, purge_stopped};
use tinaja_store::engines::POSITIONS_IN_MEMORY;
use tinaja_store::{Cache, CacheOptions, OpenError, Settings, Store, block_on};

use crate::control;
use crate::flags::Purge;
use crate::settings;

/// Forget every URL that `flags` name, and say of each whether it was there. One that fails keeps nobody from forgetting the others.
///
/// Errors: one of them is no URL, and then none is forgotten; the cache cannot be reached; some of them are not forgotten, as each of their
/// lines says.
pub fn purge(flags: Purge) -> Result<()> {
    let dirs = settings::cache_dirs(flags.cache, flags.config.as_deref())?;
    let urls = flags.url.iter().map(|url| Ok((url.as_str(), url.parse::<Url>()?))).collect::<Result<Vec<_>>>()?;
    let (mut stopped, mut failed) = (None::<Arc<dyn Store>>, 0);
    for (text, url) in &urls {
        let purged = match &stopped {
            Some(store) => block_on(purge_stopped(store, url)).map_err(|why| why.to_string()),
            None => match control::answer(&dirs, &Ask::Purge { url: (*text).to_owned() })? {
                Some(Answer::Purged { objects }) => Ok(objects),
                Some(Answer::Failed { why }) => Err(why),
                Some(_) => bail!("the server sent an unexpected answer: it may be another version"),
                None => block_on(purge_stopped(stopped.insert(open(&dirs)?), url)).map_err(|why| why.to_string()),
            },
        };
        failed += usize::from(purged.is_err());
        let said = match purged {
            Ok(0) => "was not in the cache".to_owned(),
            Ok(_) => "purged".to_owned(),
            Err(why) => format!("failed: {why}"),
        };
        match writeln!(stdout(), "{text}: {said}") {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            result => result.context("cannot write to standard output")?,
        }
    }
    if let Some(store) = stopped {
        block_on(store.close()).context("cannot write the cache to its disk: the purged objects may come back")?;
    }
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} of {} URLs were not purged", urls.len()),
    }
}

/// The cache of a server that does not run, to be written to.
fn open(dirs: &[PathBuf]) -> Result<Arc<dyn Store>> {
    if let Some(dir) = dirs.iter().find(|dir| !Cache::exists(dir)) {
        return Err(OpenError::NoCache(dir.clone()).into());
    }
    let mut more_dirs = dirs.to_vec();
    let first = more_dirs.remove(0);
    let options = CacheOptions::new(first).memory_bytes(0).more_dirs(more_dirs);
    let cache = match Cache::open(options.clone()) {
        // With all positions in memory nobody need say where the others lie.
        Err(OpenError::NoPositions(_)) => {
            let settings = Settings::new().with(&POSITIONS_IN_MEMORY, 8);
            Cache::open(options.settings(settings))
        }
        opened => opened,
    };
    let cache = cache.context("no server answers, and the cache cannot be opened directly");
    Ok(Arc::new(cache?))
}
