//! `tinaja purge`: take back what is stored, in the cache of a server that runs or in one that is stopped.

use std::io::{ErrorKind, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tinaja_proxy::admin::words::Answer;
use tinaja_proxy::admin::{Named, Selector, What, ban_stopped, purge_stopped};
use tinaja_store::engines::POSITIONS_IN_MEMORY;
use tinaja_store::{Cache, CacheOptions, Clock, OpenError, Settings, Store, block_on};

use crate::control;
use crate::flags::Purge;
use crate::settings;

/// Purge all that `flags` name, and say of each what became of it. One that fails keeps nobody from purging the others.
///
/// Errors: one of them makes no sense, and then none is purged; the cache cannot be reached; some of them are not purged, as each of their
/// lines says.
pub fn purge(flags: Purge) -> Result<()> {
    let Purge { url, prefix, host, suffix, regex, tag, all, soft, cache, config } = flags;
    let all = Named { url, prefix, host, suffix, regex, tag, all, soft }.everything()?;
    let dirs = settings::cache_dirs(cache, config.as_deref())?;
    let is_node = settings::is_node(config.as_deref())?;
    let (mut stopped, mut failed) = (None::<Arc<dyn Store>>, 0);
    for (text, what) in &all {
        let in_stopped = |store: &Arc<dyn Store>| match what {
            What::Url(_, url) => block_on(purge_stopped(store, url)).map_err(|why| why.to_string()),
            What::By(selector, soft) => by_stopped(&dirs, is_node, selector, *soft).map(|()| 1),
        };
        let purged = match &stopped {
            Some(store) => in_stopped(store),
            None => match control::answer(&dirs, &what.ask())? {
                Some(Answer::Purged { objects }) => Ok(objects),
                Some(Answer::PurgedBy) => Ok(1),
                Some(Answer::Failed { why }) => Err(why),
                Some(_) => bail!("the server sent an unexpected answer: it may be another version"),
                None => in_stopped(stopped.insert(open(&dirs)?)),
            },
        };
        failed += usize::from(purged.is_err());
        let said = what.said(purged);
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
        failed if all.iter().all(|(_, what)| matches!(what, What::Url(..))) => {
            bail!("{failed} of {} URLs were not purged", all.len())
        }
        failed => bail!("{failed} of {} purges failed", all.len()),
    }
}

/// Writes down what is to be taken back, beside a cache that this process has open.
fn by_stopped(dirs: &[PathBuf], is_node: bool, selector: &Selector, soft: bool) -> Result<(), String> {
    let dir = dirs.first().ok_or("the cache has no directory")?;
    let (what, now) = (std::slice::from_ref(selector), Clock::system().wall());
    ban_stopped((dir, is_node), what, soft, now).map_err(|error| error.to_string())
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
