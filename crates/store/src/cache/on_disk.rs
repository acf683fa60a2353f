//! The names that engines have in superblocks.

use super::options::EngineName;

/// What the name of an engine in a superblock says: which engine it is, and what else decides how its disk is cut. A program
/// that does not know one of these does not know the name, and leaves the disk alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameOnDisk {
    /// Which engine.
    pub engine: EngineName,
    /// Whether it reads related objects together: its index is cut otherwise then.
    pub prefetch: bool,
    /// Whether the positions that memory has no room for lie on a disk of their own: nothing lies before the log then.
    pub positions_apart: bool,
}

impl NameOnDisk {
    /// The name, of 16 bytes at most. What an engine never does is not in it.
    pub fn as_str(self) -> &'static str {
        match (self.engine, self.prefetch, self.positions_apart) {
            (EngineName::HashCacheLogLru, false, true) => "hc-loglru+apart",
            (EngineName::HashCacheLogLru, true, true) => "hc-loglru+ah+ap",
            (EngineName::HashCacheSetMemLru, false, _) => "hashcache-smlru",
            (engine @ (EngineName::HashCacheLogN | EngineName::Segmented), ..) | (engine, false, _) => engine.as_str(),
            (EngineName::HashCacheBasic, true, _) => "hc-basic+ahead",
            (EngineName::HashCacheSet, true, _) => "hc-set+ahead",
            (EngineName::HashCacheSetMem, true, _) => "hc-setmem+ahead",
            (EngineName::HashCacheSetMemLru, true, _) => "hc-smlru+ahead",
            (EngineName::HashCacheLogLru, true, false) => "hc-loglru+ahead",
            (EngineName::HashCacheLog, true, _) => "hc-log+ahead",
        }
    }

    /// What a name says; `None` for one that no engine has.
    pub fn read(name: &str) -> Option<NameOnDisk> {
        let all =
            EngineName::ALL.into_iter().flat_map(|engine| {
                [(false, false), (true, false), (false, true), (true, true)]
                    .map(|(prefetch, positions_apart)| NameOnDisk { engine, prefetch, positions_apart })
            });
        all.into_iter().find(|one| one.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_as_what_it_was_given_for() {
        let mut names = Vec::new();
        for engine in EngineName::ALL {
            for (prefetch, positions_apart) in [(false, false), (true, false), (false, true), (true, true)] {
                let can =
                    (engine.can_prefetch() || !prefetch) && (engine == EngineName::HashCacheLogLru || !positions_apart);
                let one = NameOnDisk { engine, prefetch, positions_apart };
                assert!(one.as_str().len() <= 16, "{one:?}");
                assert_eq!(NameOnDisk::read(one.as_str()) == Some(one), can, "{one:?}");
                names.extend(Some(one.as_str()).filter(|_| can));
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count, NameOnDisk::read("hashcache-lgo")), (count, 16, None));
    }
}
