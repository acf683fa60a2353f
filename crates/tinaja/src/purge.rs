//! `tinaja purge`: take back what is stored, in the cache of a server that runs or in one that is stopped.

use std::io::{ErrorKind, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use tinaja_proxy::admin::words::{Answer, Ask};
use tinaja_proxy::admin::{Selector, Url, ban_stopped, purge_stopped};
use tinaja_store::engines::POSITIONS_IN_MEMORY;
use tinaja_store::{Cache, CacheOptions, Clock, OpenError, Settings, Store, block_on};

use crate::control;
use crate::flags::Purge;
use crate::settings;

/// One thing to purge.
enum What {
    /// This URL is forgotten.
    Url(Url),
    /// What fits is taken back.
    By(Selector),
}

/// Purge all that `flags` name, and say of each what became of it. One that fails keeps nobody from purging the others.
///
/// Errors: one of them makes no sense, and then none is purged; the cache cannot be reached; some of them are not purged, as each of their
/// lines says.
pub fn purge(flags: Purge) -> Result<()> {
    let soft = flags.soft;
    let all = everything(&flags)?;
    let dirs = settings::cache_dirs(flags.cache, flags.config.as_deref())?;
    let is_node = settings::is_node(flags.config.as_deref())?;
    let (mut stopped, mut failed) = (None::<Arc<dyn Store>>, 0);
    for (text, what) in &all {
        let in_stopped = |store: &Arc<dyn Store>| match what {
            Url(url) => block_on(purge_stopped(store, url)).map_err(|why| why.to_string()),
            By(selector) => by_stopped(&dirs, is_node, selector, soft).map(|()| 1),
        };
        use What::{By, Url};
        let ask = match what {
            Url(_) => Ask::Purge { url: text.clone() },
            By(selector) => Ask::PurgeBy { what: vec![selector.clone()], soft },
        };
        let purged = match &stopped {
            Some(store) => in_stopped(store),
            None => match control::answer(&dirs, &ask)? {
                Some(Answer::Purged { objects }) => Ok(objects),
                Some(Answer::PurgedBy) => Ok(1),
                Some(Answer::Failed { why }) => Err(why),
                Some(_) => bail!("the server sent an unexpected answer: it may be another version"),
                None => in_stopped(stopped.insert(open(&dirs)?)),
            },
        };
        failed += usize::from(purged.is_err());
        let said = match purged {
            Ok(0) => "was not in the cache".to_owned(),
            Ok(_) if soft => "purged softly".to_owned(),
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
        failed if all.iter().all(|(_, what)| matches!(what, What::Url(_))) => {
            bail!("{failed} of {} URLs were not purged", all.len())
        }
        failed => bail!("{failed} of {} purges failed", all.len()),
    }
}

/// What the flags name, each with the text for its line.
///
/// Errors: one of them makes no sense.
fn everything(flags: &Purge) -> Result<Vec<(String, What)>> {
    let is_scope = !flags.tag.is_empty() || !flags.suffix.is_empty();
    let scope = match flags.host.as_slice() {
        [host] if is_scope => Some(host.clone()),
        [] => None,
        _ if is_scope => bail!("a tag or suffix is purged at one host or all: give --host once, or not at all"),
        _ => None,
    };
    let at = scope.as_ref().map_or(String::new(), |host| format!(" at {host}"));
    let mut all = Vec::new();
    for url in &flags.url {
        let what = match flags.soft {
            true => What::By(Selector::Url { url: url.clone() }),
            false => What::Url(url.parse()?),
        };
        all.push((url.clone(), what));
    }
    let mut by = |text: String, selector| all.push((text, What::By(selector)));
    for url in &flags.prefix {
        by(format!("prefix {url}"), Selector::Prefix { url: url.clone() });
    }
    for host in flags.host.iter().filter(|_| !is_scope) {
        by(format!("host {host}"), Selector::Host { host: host.clone() });
    }
    for suffix in &flags.suffix {
        by(format!("suffix {suffix}{at}"), Selector::Suffix { suffix: suffix.clone(), host: scope.clone() });
    }
    for regex in &flags.regex {
        by(format!("regex {regex}"), Selector::Regex { regex: regex.clone() });
    }
    for tag in &flags.tag {
        by(format!("tag {tag}{at}"), Selector::Tag { tag: tag.clone(), host: scope.clone() });
    }
    if flags.all {
        by("everything".to_owned(), Selector::All);
    }
    for (text, what) in &all {
        if let What::By(selector) = what {
            selector.check().map_err(|error| anyhow!("{text}: {error}"))?;
        }
    }
    Ok(all)
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
