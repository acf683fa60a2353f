//! The order of use inside a set: each way has a rank, 0 for the one used last, and the ranks of a set are a
//! permutation of its ways. So LRU takes log2(N) bits a slot and no links (HashCache, section 3.3).

/// A set whose ways have ranks.
pub trait Ranked {
    /// How many ways it has.
    fn ways(&self) -> usize;
    /// The rank of a way.
    fn rank(&self, way: usize) -> u8;
    /// Change it.
    fn set_rank(&mut self, way: usize, rank: u8);
}

/// Make a way the most recently used of its set.
pub fn touch(set: &mut impl Ranked, way: usize) {
    let rank = set.rank(way);
    for other in 0..set.ways() {
        let rank_of_other = set.rank(other);
        if rank_of_other < rank {
            set.set_rank(other, rank_of_other + 1);
        }
    }
    set.set_rank(way, 0);
}
