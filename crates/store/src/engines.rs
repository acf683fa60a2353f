//! The engines that come with Tinaja. A new one is its folder and a line here.

use std::str::FromStr;

pub use crate::engine::damelo::{ELEVATOR, FRAME_SIZE, GROUP_BY_SITE, GROUPS, LARGE_FRAMES, POOL};
pub use crate::engine::generational::{INDEX_ENTRIES, INDEX_MEMORY, VALUE};
pub use crate::engine::hashcache::settings::{
    BIN_SIZE, HASH_BITS, POSITIONS_IN_MEMORY, PREFETCH, SETS_IN_MEMORY, WAYS,
};
pub use crate::engine::segmented::KEEP;
pub use crate::engine::trees::{
    CYCLIC_REPLACEMENT, FILES_PER_DIRECTORY, FIRST_LEVEL, MAPPED_PERCENT, OVERLAPPING_MASKS, PAGE_SIZE, SECOND_LEVEL,
};
pub use crate::engine::{EngineRecord, EngineRef, Registry, Setting, Settings, Takes};

/// Calls a macro with a line for each engine on a device, in the order of their papers: `name: CONSTANT = record`. With it tests
/// have a test of their own for each. What else is given comes first, in parentheses.
#[macro_export]
macro_rules! for_built_in_engines {
    ($callback:path) => {
        $crate::for_built_in_engines!($callback,);
    };
    ($callback:path, $($more:tt)*) => {
        $callback! {
            ($($more)*)
            hashcache_basic: HASHCACHE_BASIC = hashcache::BASIC,
            hashcache_set: HASHCACHE_SET = hashcache::SET,
            hashcache_setmem: HASHCACHE_SETMEM = hashcache::SETMEM,
            hashcache_setmemlru: HASHCACHE_SETMEMLRU = hashcache::SETMEMLRU,
            hashcache_loglru: HASHCACHE_LOGLRU = hashcache::LOGLRU,
            hashcache_logn: HASHCACHE_LOGN = hashcache::LOGN,
            hashcache_log: HASHCACHE_LOG = hashcache::LOG,
            segmented: SEGMENTED = segmented::SEGMENTED,
            damelo: DAMELO = damelo::DAMELO,
            generational: GENERATIONAL = generational::GENERATIONAL,
        }
    };
}

/// The same of the engines that keep files of their own in a directory, and are on no device.
#[macro_export]
macro_rules! for_built_in_engines_in_directories {
    ($callback:path) => {
        $crate::for_built_in_engines_in_directories!($callback,);
    };
    ($callback:path, $($more:tt)*) => {
        $callback! {
            ($($more)*)
            cern: CERN = trees::CERN,
            squid: SQUID = trees::SQUID,
            squid2: SQUID2 = trees::SQUID2,
            squidl: SQUIDL = trees::SQUIDL,
            squidl_k: SQUIDL_K = trees::SQUIDL_K,
            squidm: SQUIDM = trees::SQUIDM,
            squidml: SQUIDML = trees::SQUIDML,
            squidmla: SQUIDMLA = trees::SQUIDMLA,
        }
    };
}

macro_rules! define {
    (($list:ident) $($name:ident: $constant:ident = $folder:ident::$record:ident,)*) => {
        $(
            #[doc = concat!("The engine `", stringify!($name), "`, with dashes; see its record.")]
            pub const $constant: EngineRef = &crate::engine::$folder::$record;
        )*

        const $list: &[EngineRef] = &[$($constant),*];
    };
}

for_built_in_engines!(define, ON_DEVICES);
for_built_in_engines_in_directories!(define, IN_DIRECTORIES);

/// The engines that come with Tinaja. A new cache has hashcache-log where nothing else is said.
pub fn built_in() -> Registry {
    IN_DIRECTORIES.iter().fold(on_devices(), |all, engine| all.with(engine))
}

/// Those of them that have a disk to themselves, a file or a device.
pub fn on_devices() -> Registry {
    Registry::of(ON_DEVICES).with_default(HASHCACHE_LOG)
}

/// By the name of an engine that comes with Tinaja. Errors: there is none; the text says which there are.
impl FromStr for EngineRef {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        built_in().find(name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::engine::registry::Ground;

    /// An engine is found by its name, and a disk by the name in its superblock: no two may have the same.
    #[test]
    fn every_name_means_one_engine_and_one_cut() {
        let all = built_in();
        let mut names = BTreeSet::new();
        let mut on_disk = 0;
        for engine in all.iter() {
            assert_eq!(engine.name.parse(), Ok(engine));
            let Ground::Device(device) = &engine.ground else { continue };
            for (name, said) in device.names {
                assert!(name.len() <= 16 && names.insert(name), "{name}");
                assert!(said.iter().all(|(setting, _)| engine.has(setting) && setting.lasts), "{name}");
                on_disk += 1;
            }
        }
        assert_eq!((all.iter().count(), on_disk), (18, 20));
        let error = "hashcache-lgo".parse::<EngineRef>().unwrap_err();
        assert!(error.contains("hashcache-basic, hashcache-set") && error.ends_with("squidmla"), "{error}");
    }
}
