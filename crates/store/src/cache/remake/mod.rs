//! A cache made anew with what it holds: of another size, engine or cut, or over other disks.
//!
//! Where an object lies follows from the size of a disk, its engine and the number of disks, so none of them can be changed in
//! place. The new cache is made beside the old one, in a directory `remade` of each of its directories, filled by
//! [copying](mod@copy), and [put in the old one's place](place) when it is whole. Until then the old one is only read: a
//! crash, a full disk or a failing one loses nothing of it. It has the secret of the old one, so what was asked for under a key is
//! found under it.

mod copy;
pub(super) mod place;

use std::path::PathBuf;
use std::sync::Arc;

use self::place::Beside;
use super::Cache;
use super::by_memory::by_its_memory;
use super::open::{Checked, Site, There, asked_of, check_disk, open_all, open_engine, site, sites};
use super::options::{CacheOptions, OpenError};
use crate::device::{Access, is_block_device};
use crate::engine::registry::Ground;
use crate::engine::spread::Spread;
use crate::engine::{Engine, EngineRef, Setting, Settings};
use crate::hot::HotObjects;
use crate::store::Store;
use crate::terms::Stats;
use crate::wait::block_on;

/// What became of the objects of a cache that is made anew, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remade {
    /// Objects that the old cache had when it was opened.
    pub objects: u64,
    /// Of those, how many are done with: copied or not.
    pub done: u64,
    /// Objects copied. Where the new cache is smaller or organised otherwise, it may have let go of some again.
    pub copied: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Objects left out because the new cache has no room for them: those that were written first.
    pub left_out: u64,
    /// Objects that the new cache takes no more: they are too large for it.
    pub too_large: u64,
    /// Versions that newer ones have replaced.
    pub replaced: u64,
    /// Objects that could not be read whole.
    pub unread: u64,
}

impl Cache {
    /// Make a cache anew as `options` say, with what the caches in `from` and in its own directories hold; they must be disks of one
    /// cache. What `options` leave out (size, engine, settings) is as it was. What the cache held on disks that are not named
    /// is not in the new one. Where the cache goes on without a disk that is in `from`, what is on that one is put out of use, since it
    /// would bring back what is replaced or removed later: its file gets the ending `outdated`. A cache that is copied elsewhere
    /// whole is left as it is. With `despite_errors` what a disk cannot read is left out; without, it is an error. `tell` hears
    /// how far it is, once a second.
    ///
    /// The new cache needs its whole size beside the old one. Memory: the indexes and buffers of both, 32 MiB for places, and
    /// sixteen parts of large objects. What an engine knows of how popular an object is gets lost, and so do groups; objects
    /// are copied in the order in which they lie on the disk, which for engines with a log is the order in which they were written.
    ///
    /// Errors: there is no cache to copy; another process has one of them, or makes it anew; there is no room; the options do not
    /// go together; a disk fails. Then the old cache is as it was.
    pub fn remake(
        from: &[PathBuf],
        options: &CacheOptions,
        despite_errors: bool,
        tell: &mut dyn FnMut(&Remade),
    ) -> Result<Remade, OpenError> {
        let to = sites(options)?;
        place::settle(&dirs_of(&to))?;
        let sources = sources(from, &to, options)?;
        let asked = as_before(options, &sources);
        let own = dirs_of(&to);
        let is_tree = asked.engine.is_some_and(|engine| matches!(engine.ground, Ground::Directory(_)));
        let beside = Beside::make(&own, is_tree)?;
        let goes_on = sources.iter().any(|source| own.contains(&source.dir));
        let outdated = sources.iter().map(|source| source.dir.clone()).filter(|dir| goes_on && !own.contains(dir));
        let outdated: Vec<_> = outdated.filter(|dir| !is_block_device(dir)).collect();
        let dirs = beside.dirs();
        let (first, others) = dirs.split_first().ok_or_else(|| OpenError::NoCache(options.dir.clone()))?;
        let new =
            CacheOptions { device: None, dir: first.clone(), more_dirs: others.to_vec(), memory_bytes: 0, ..asked };
        let secret = sources.first().map(|source| source.disk.identity().secret.clone());
        let made = Arc::new(open_all(sites(&new)?, &new, Access::Alone, secret).map_err(no_room)?);
        let old = Arc::new(opened(sources, &new)?);
        let before = old.stats();
        let done = copy::copy(&old, &made, tell);
        // What the old one had forgotten is not in the new one either.
        made.saved_as_of(old.saved_epoch());
        let unread = unreadable(&before, &old.stats()).filter(|_| !despite_errors);
        let closed = block_on(made.close());
        let failed = |error: String| OpenError::Device { path: first.clone(), error };
        let done = done.map_err(failed)?;
        closed.map_err(|error| failed(error.to_string()))?;
        drop(made);
        if let Some(why) = unread {
            return Err(OpenError::Unreadable(why));
        }
        beside.put_in_place()?;
        // The old one was locked until here.
        drop(old);
        for dir in outdated {
            if let Err(error) = place::outdate(&dir) {
                tracing::warn!("{error}: do not use this disk for the cache again");
            }
        }
        Ok(done)
    }
}

impl Cache {
    /// What is saved from now on belongs to this epoch: the cache is new, and has what one had that was opened by an index of it, and no more.
    fn saved_as_of(&self, epoch: u64) {
        self.0.engine.capabilities().epochs.into_iter().for_each(|epochs| epochs.begin_epoch(epoch));
    }
}

/// What the old disks could not do meanwhile, in words.
fn unreadable(before: &Stats, after: &Stats) -> Option<String> {
    let more = |of: fn(&Stats) -> u64| of(after) - of(before);
    match (more(|stats| stats.read_errors), more(|stats| stats.engines_stopped + stats.disks_retired)) {
        (0, 0) => None,
        (errors, 0) => Some(format!("{errors} reads failed")),
        _ => Some("a disk was given up".to_owned()),
    }
}

impl Cache {
    /// End what [`Cache::remake`] began, if it was cut short; [`Cache::open`] does so too. Errors: the system's, and that another process
    /// makes the cache anew.
    pub fn settle(options: &CacheOptions) -> Result<(), OpenError> {
        place::settle(&dirs_of(&sites(options)?))
    }

    /// The directory or block device with the first disk of the cache that [`Cache::remake`] would copy, with which programs may keep
    /// files of their own; nothing where the first disk is not among them. Errors: as there.
    pub fn first_of(from: &[PathBuf], options: &CacheOptions) -> Result<Option<PathBuf>, OpenError> {
        let to = sites(options)?;
        place::settle(&dirs_of(&to))?;
        let first = sources(from, &to, options)?.into_iter().next();
        Ok(first.filter(|first| first.disk.identity().disk.0 == 0).map(|first| first.dir))
    }
}

/// A full disk is told as one: the old cache takes part of it.
fn no_room(error: OpenError) -> OpenError {
    match error {
        OpenError::Size { asked, how: "large", limit } => OpenError::Setting(format!(
            "the new cache takes {asked} bytes, and it is made beside the old one, where there is room for a size{limit}: make \
                 room, choose a smaller size, or copy the cache to another disk first and back from there"
        )),
        other => other,
    }
}

fn dirs_of(sites: &[Site]) -> Vec<PathBuf> {
    sites.iter().map(|site| site.dir.clone()).collect()
}

/// One disk of what is copied.
struct Source {
    dir: PathBuf,
    engine: EngineRef,
    made: Settings,
    bytes: u64,
    mean_object_bytes: u64,
    disk: Checked,
}

/// Open what there is of the old cache, for reading.
fn opened(sources: Vec<Source>, options: &CacheOptions) -> Result<Cache, OpenError> {
    let none = || OpenError::NoCache(options.dir.clone());
    let (secret, of) = sources
        .first()
        .map(|source| source.disk.identity().clone())
        .map(|it| (it.secret, it.disk.1))
        .ok_or_else(none)?;
    // Where an object lies on the disk is said with the disk's number.
    let mut disks: Vec<Option<Arc<dyn Engine>>> = vec![None; of.into()];
    for source in sources {
        let number = source.disk.identity().disk.0;
        let engine = open_engine(number, source.disk, options, Access::ReadOnly)?;
        disks.get_mut(usize::from(number)).map(|place| place.replace(engine));
    }
    let engine = match disks.len() {
        1 => disks.pop().flatten(),
        _ => Spread::with_gaps(disks).map(|spread| Arc::new(spread) as Arc<dyn Engine>),
    };
    let engine = engine.ok_or_else(none)?;
    engine.refuse_appends();
    let failed = |error: std::io::Error| OpenError::Device { path: options.dir.clone(), error: error.to_string() };
    Cache::over_hot(options.clock.clone(), engine, secret, (HotObjects::new(0), 0)).map_err(failed)
}

/// What is copied: the disks in `from`, and those that the new cache takes the place of. All are of one cache, and each is there
/// once.
fn sources(from: &[PathBuf], to: &[Site], options: &CacheOptions) -> Result<Vec<Source>, OpenError> {
    let found = from.iter().map(|dir| (site(dir.clone(), &options.engines), true));
    let own = to.iter().map(|own| (site(own.dir.clone(), &options.engines), false));
    let mut sources: Vec<Source> = Vec::new();
    let mut seen = Vec::new();
    // Its own come first, so that one that is named as well, however it is spelled, goes by its own name.
    for (site, is_named) in own.chain(found) {
        let same = std::fs::canonicalize(&site.dir).unwrap_or_else(|_| site.dir.clone());
        if matches!(site.there, There::Nothing) {
            if is_named {
                return Err(OpenError::NoCache(site.dir));
            }
            continue;
        }
        if !is_named && is_block_device(&site.dir) {
            return Err(OpenError::Setting(format!(
                "{0} is a block device with a cache on it, and has no room for another beside it: copy the cache to a \
                 directory first, clear the first MiB of {0}, and copy it back from there",
                site.dir.display()
            )));
        }
        if seen.contains(&same) {
            continue;
        }
        seen.push(same);
        // As it is, whatever the new one is to be.
        let plain = CacheOptions {
            engines: options.engines.clone(),
            io: options.io,
            io_threads: options.io_threads,
            clock: options.clock.clone(),
            // The whole of an index in memory: places in their order are what copying goes by.
            memory_bytes: 0,
            ..CacheOptions::new("")
        };
        let dir = site.dir.clone();
        let disk = check_disk(site, &plain, Access::ReadOnly)?;
        let (engine, made, bytes, mean_object_bytes) = disk.about();
        sources.push(Source { dir, engine, made, bytes, mean_object_bytes, disk });
    }
    sources.sort_by_key(|source| source.disk.identity().disk);
    let Some(first) = sources.first() else { return Err(OpenError::NoCache(options.dir.clone())) };
    let (secret, of) = (first.disk.identity().secret.clone(), first.disk.identity().disk.1);
    for (number, source) in sources.iter().enumerate() {
        let identity = source.disk.identity();
        let twice =
            number > 0 && sources.get(number - 1).is_some_and(|before| before.disk.identity().disk == identity.disk);
        if identity.secret.bytes() != secret.bytes() || identity.disk.1 != of || twice {
            return Err(OpenError::Setting(format!(
                "{} is no disk of the cache in {}, or an earlier state of one: name the disks of one cache, or an empty directory",
                source.disk.path.display(),
                first.disk.path.display()
            )));
        }
    }
    Ok(sources)
}

/// The options, with what they leave out as it was.
fn as_before(options: &CacheOptions, sources: &[Source]) -> CacheOptions {
    let Some(first) = sources.first() else { return options.clone() };
    let engine = options.engine.unwrap_or(first.engine);
    // Those without help the store sets itself, by what else it is told.
    let lasts = |setting: &Setting| setting.lasts && engine.has(setting) && !setting.help.is_empty();
    let made = first.made.iter().filter(|(setting, _)| lasts(setting));
    let made = made.fold(Settings::new(), |made, (setting, value)| made.with(setting, value));
    let disk_bytes = options.disk_bytes.unwrap_or(first.bytes);
    let mean_object_bytes = options.mean_object_bytes.or(Some(first.mean_object_bytes));
    let options =
        CacheOptions { engine: Some(engine), disk_bytes: Some(disk_bytes), mean_object_bytes, ..options.clone() };
    let settings = by_its_memory(engine, asked_of(&options).over(&made), &options, disk_bytes);
    CacheOptions { settings, ..options }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_disk_cannot_do_is_told_apart_from_what_it_never_could() {
        let before = Stats { read_errors: 3, corrupt: 1, ..Stats::default() };
        assert_eq!(unreadable(&before, &Stats { corrupt: 9, ..before }), None, "each was a miss before, too");
        let more = unreadable(&before, &Stats { read_errors: 5, ..before });
        assert_eq!(more.as_deref(), Some("2 reads failed"));
        let stopped = Stats { read_errors: 5, engines_stopped: 1, ..before };
        assert_eq!(unreadable(&before, &stopped).as_deref(), Some("a disk was given up"));
    }
}
