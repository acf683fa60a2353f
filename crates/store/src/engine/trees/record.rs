//! The records of the trees.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::directory::{self, Held};
use super::engine::{FileTree, TreeOptions};
use super::figures::{EVICTED_FILES, FOREIGN_FILES, LOST_FILES, REMOVED_FILES, REPLACED_SEGMENTS};
use super::naming::{Naming, Scheme};
use super::segments::{Mapped, Replacement};
use super::settings::{
    CYCLIC_REPLACEMENT, FILES_PER_DIRECTORY, FIRST_LEVEL, MAPPED_PERCENT, OVERLAPPING_MASKS, PAGE_SIZE, SECOND_LEVEL,
    value, wrong_masks, wrong_masks_or_pages, wrong_pages,
};
use crate::device::mapped::{Packing, WithMapped};
use crate::device::tree::{RealTree, Tree};
use crate::device::{Access, OpenDiskError};
use crate::engine::registry::{
    Ask, EngineRecord, EngineRef, Ground, Identity, InDirectory, Locked, LockedDirectory, OpeningFiles,
};
use crate::engine::{Engine, Setting, Settings, no_cut_to_tell, none_wrong};
use crate::layout::Stamp;

const FIGURES: &[&crate::terms::Figure] = &[&EVICTED_FILES, &REMOVED_FILES, &LOST_FILES, &FOREIGN_FILES];
const FIGURES_OF_MAPPED: &[&crate::terms::Figure] =
    &[&EVICTED_FILES, &REMOVED_FILES, &LOST_FILES, &FOREIGN_FILES, &REPLACED_SEGMENTS];

/// The largest mapped file: its segments are numbered by 32 bits, in units of 512 bytes.
const MAX_MAPPED_BYTES: u64 = 512 << 32;

/// A record. Its name stands in it, so that what it points to can name it.
macro_rules! record {
    ($(#[$doc:meta])* $record:ident, $name:literal, $about:literal, $wrong:path, $scheme:expr, $packing:expr, $settings:expr) => {
        $(#[$doc])*
        pub static $record: EngineRecord = EngineRecord {
            name: $name,
            about: $about,
            settings: $settings,
            counts_objects: true,
            wrong: $wrong,
            figures: if $packing.is_some() { FIGURES_OF_MAPPED } else { FIGURES },
            inspect: no_cut_to_tell,
            ground: Ground::Directory(InDirectory {
                is_there: |dir| directory::is_there(dir, &$record),
                create: |dir, ask, identity| create(dir, ask, identity, &$record),
                lock: |dir, access| lock(dir, access, &$record, $scheme, $packing),
            }),
        };
    };
}

record!(
    /// Directories by URL, each with a list of what may be served (section 2.3.1).
    CERN,
    "cern",
    "a file per object, a directory per component of its URL, as CERN's server had them; to compare with",
    none_wrong,
    Scheme::Cern,
    None::<Packing>,
    &[]
);

record!(
    /// Files by number, neighbours in different directories (section 2.3.2).
    SQUID,
    "squid",
    "a file per object in 16 x 256 directories by number, as Squid 1 had them; to compare with",
    none_wrong,
    Scheme::Squid,
    None::<Packing>,
    &[&FIRST_LEVEL, &SECOND_LEVEL]
);

record!(
    /// Files by number, one directory filled after the other (2.4.1).
    SQUID2,
    "squid2",
    "a file per object, directories filled one after the other, as Squid 2 and later have them; to compare with",
    none_wrong,
    Scheme::Squid2,
    None::<Packing>,
    &[&FIRST_LEVEL, &SECOND_LEVEL, &FILES_PER_DIRECTORY]
);

record!(
    /// Files by host (2.4.1).
    SQUIDL,
    "squidl",
    "a file per object, what a host has in one directory (Maltzahn's SQUIDL)",
    wrong_masks,
    Scheme::SquidL,
    None::<Packing>,
    &[&FIRST_LEVEL, &SECOND_LEVEL, &OVERLAPPING_MASKS]
);

record!(
    /// Files by host, and a limit for each directory.
    SQUIDL_K,
    "squidl-k",
    "a file per object, what a host has in one directory until that is full, then in the next one",
    wrong_masks,
    Scheme::SquidLK,
    None::<Packing>,
    &[&FIRST_LEVEL, &SECOND_LEVEL, &FILES_PER_DIRECTORY]
);

record!(
    /// Small objects in one mapped file in the order in which they were missed, larger ones in files by number (2.4.2).
    SQUIDM,
    "squidm",
    "small objects in one mapped file, a file for each larger one (Maltzahn's SQUIDM)",
    wrong_pages,
    Scheme::Squid,
    Some(Packing::InOrder),
    &[&FIRST_LEVEL, &SECOND_LEVEL, &MAPPED_PERCENT, &PAGE_SIZE, &CYCLIC_REPLACEMENT]
);

record!(
    /// The same, and larger objects by host (2.4.3).
    SQUIDML,
    "squidml",
    "small objects in one mapped file, larger ones in files by host (Maltzahn's SQUIDML)",
    wrong_masks_or_pages,
    Scheme::SquidL,
    Some(Packing::InOrder),
    &[&FIRST_LEVEL, &SECOND_LEVEL, &OVERLAPPING_MASKS, &MAPPED_PERCENT, &PAGE_SIZE, &CYCLIC_REPLACEMENT]
);

record!(
    /// The same, and no small object crosses the end of a page (2.4.4).
    SQUIDMLA,
    "squidmla",
    "as squidml, and no small object crosses the end of a page (Maltzahn's SQUIDMLA)",
    wrong_masks_or_pages,
    Scheme::SquidL,
    Some(Packing::WithinPages),
    &[&FIRST_LEVEL, &SECOND_LEVEL, &OVERLAPPING_MASKS, &MAPPED_PERCENT, &PAGE_SIZE, &CYCLIC_REPLACEMENT]
);

fn create(dir: &Path, ask: &Ask<'_>, identity: &Identity, engine: EngineRef) -> Result<(), OpenDiskError> {
    // Written down with their values, so that a later default changes no cache that is there.
    let settings: &[&'static Setting] = engine.settings;
    let made = settings
        .iter()
        .filter(|setting| setting.lasts)
        .fold(Settings::new(), |made, setting| made.with(setting, value(ask.settings, setting).into()));
    if engine.has(&MAPPED_PERCENT) {
        directory::create_mapped(dir, mapped_bytes(ask.bytes, &made))?;
    }
    directory::create(dir, ask, identity, engine, &made)
}

/// What a cache of so many bytes has as its mapped file.
fn mapped_bytes(bytes: u64, made: &Settings) -> u64 {
    let page_bytes = u64::from(value(made, &PAGE_SIZE));
    let bytes = bytes / 100 * u64::from(value(made, &MAPPED_PERCENT));
    bytes.clamp(page_bytes, MAX_MAPPED_BYTES).next_multiple_of(page_bytes)
}

fn lock(dir: &Path, access: Access, engine: EngineRef, scheme: Scheme, packing: Option<Packing>) -> Locked {
    let held = directory::lock(dir, access, engine)?;
    Ok(Box::new(LockedTree { held, engine, scheme, packing }))
}

struct LockedTree {
    held: Held,
    engine: EngineRef,
    scheme: Scheme,
    /// Of the mapped file, where there is one.
    packing: Option<Packing>,
}

impl LockedDirectory for LockedTree {
    fn identity(&self) -> &Identity {
        &self.held.about.identity
    }

    fn bytes(&self) -> u64 {
        self.held.about.bytes
    }

    fn mean_object_bytes(&self) -> u64 {
        self.held.about.mean_object_bytes
    }

    fn made_with(&self) -> Settings {
        self.held.about.made.clone()
    }

    fn open(self: Box<Self>, opening: OpeningFiles) -> Result<Arc<dyn Engine>, String> {
        let Held { about, objects, mapped: path, lock } = self.held;
        let OpeningFiles { settings, clock, flush_every, read_only, fuse } = opening;
        let tree = RealTree::open(&objects).map_err(|error| format!("cannot open {}: {error}", objects.display()))?;
        let naming = Naming {
            scheme: self.scheme,
            first: value(&settings, &FIRST_LEVEL),
            second: value(&settings, &SECOND_LEVEL),
            files: value(&settings, &FILES_PER_DIRECTORY),
            overlapping: settings.is_on(&OVERLAPPING_MASKS),
        };
        let mapped = self.packing.map(|packing| {
            let page_bytes = value(&settings, &PAGE_SIZE);
            let bytes = mapped_bytes(about.bytes, &settings);
            let is_cyclic = settings.is_on(&CYCLIC_REPLACEMENT);
            let replacement = if is_cyclic { Replacement::FBC } else { Replacement::Lru };
            Mapped { bytes, page_bytes, packing, replacement }
        });
        let (mut tree, mut lost): (Arc<dyn Tree>, u64) = (Arc::new(tree), 0);
        if let Some(mapped) = mapped {
            let both = WithMapped::over(tree, &path, mapped.bytes, about.identity.secret.seed(), read_only);
            let both = both.map_err(|error| {
                let what_to_do = match error.kind() {
                    ErrorKind::PermissionDenied => ": let the user who runs this read and write it",
                    _ => "",
                };
                format!("cannot map {}: {error}{what_to_do}", path.display())
            })?;
            if both.was_cut() {
                tracing::warn!("{}: somebody else has removed or cut it; what lay there is gone", path.display());
                lost = 1;
            }
            tree = Arc::new(both);
        }
        let options = TreeOptions {
            engine: self.engine,
            naming,
            bytes: about.bytes.saturating_sub(mapped.map_or(0, |mapped| mapped.bytes)),
            mapped,
            mean_object_bytes: about.mean_object_bytes,
            stamp: Stamp { seed: about.identity.secret.seed() },
            clock,
            flush_every,
            read_only,
        };
        Ok(Arc::new(FileTree::open_locked(tree, options, fuse, Some(lock), lost)?))
    }
}
