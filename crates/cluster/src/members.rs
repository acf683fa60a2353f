//! Who belongs to the cluster, and the home of each key.
//!
//! Keys are divided among 4096 partitions, and each partition has a home: of all nodes that may be one, that whose hash with the partition is the highest
//! (rendezvous hashing). So every node that knows the same members knows the same homes, and a node that leaves or joins moves its own share alone.
//! The paper divides the key-table equally and does not say how (section 3, "soft shared state").

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::limits::PARTITIONS;
use crate::slots::SlotKey;

/// One life of a node: a node that starts again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// What a node does for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It serves clients, and keeps a share of the key-table.
    Proxy,
    /// It lends memory alone, and may invalidate (3.3, "passive cooperative caching modules").
    Passive,
}

/// Where the memory that a node lends has its slots and its part of the key-table, in bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lends {
    /// The first slot.
    pub slots_at: u64,
    /// Bytes from one slot to the next.
    pub slot_bytes: u64,
    /// How many there are.
    pub slots: u32,
    /// The first bucket.
    pub table_at: u64,
    /// How many there are; 0 for a node that is no home.
    pub buckets: u32,
}

/// A node, as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, which stays when it starts again. Homes go by it.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// What it lends.
    pub lends: Lends,
}

/// All members at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    all: BTreeMap<NodeId, Member>,
    /// Those that may be homes, with the hashes of their names.
    proxies: Vec<(NodeId, u64)>,
    /// The home of each partition; none while there is no proxy.
    homes: Vec<NodeId>,
    view: u64,
}

impl Members {
    /// These. Takes a hash for each proxy and partition.
    pub fn new(all: BTreeMap<NodeId, Member>) -> Members {
        let proxies: Vec<(NodeId, u64)> = all
            .iter()
            .filter(|(_, member)| member.role == Role::Proxy && member.lends.buckets > 0)
            .map(|(id, member)| (*id, xxh3_64_with_seed(member.name.as_bytes(), 0)))
            .collect();
        let home = |partition: usize| proxies.iter().max_by_key(|proxy| score(partition, proxy)).map(|(id, _)| *id);
        let homes = (0..PARTITIONS).map_while(home).collect();
        let ids: Vec<u8> = all.keys().flat_map(|id| id.0.to_le_bytes()).collect();
        Members { all, proxies, homes, view: xxh3_64_with_seed(&ids, 0) }
    }

    /// The node on which the key-table has this key; none while there is no proxy.
    pub fn home(&self, key: &SlotKey) -> Option<NodeId> {
        self.homes.get(partition(key)).copied()
    }

    /// The nodes whose hashes with this key's partition are the highest, so many at most; the first is its home.
    pub fn homes_of(&self, key: &SlotKey, count: usize) -> Vec<NodeId> {
        let partition = partition(key);
        let mut all = self.proxies.clone();
        all.sort_by_cached_key(|proxy| std::cmp::Reverse(score(partition, proxy)));
        all.into_iter().take(count).map(|(id, _)| id).collect()
    }

    /// The home of each partition.
    pub fn homes(&self) -> impl Iterator<Item = NodeId> {
        self.homes.iter().copied()
    }

    /// Which nodes they are, as one number.
    pub fn view(&self) -> u64 {
        self.view
    }

    /// A member.
    pub fn get(&self, node: NodeId) -> Option<&Member> {
        self.all.get(&node)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.all.iter().map(|(id, member)| (*id, member))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

fn partition(key: &SlotKey) -> usize {
    let [low, high, ..] = *key;
    usize::from(u16::from_le_bytes([low, high])) % PARTITIONS
}

/// What is compared to find the home of a partition; never the same for two nodes.
fn score(partition: usize, (id, name): &(NodeId, u64)) -> (u64, NodeId) {
    (xxh3_64_with_seed(&(partition as u64).to_le_bytes(), *name), *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(names: &[&str]) -> Members {
        let lends = Lends { slots_at: 0, slot_bytes: 64, slots: 1, table_at: 0, buckets: 1 };
        let member = |name: &str| Member { name: name.to_owned(), role: Role::Proxy, lends };
        Members::new(names.iter().enumerate().map(|(n, name)| (NodeId(n as u64), member(name))).collect())
    }

    fn names(members: &Members) -> Vec<String> {
        members.homes.iter().map(|home| members.get(*home).unwrap().name.clone()).collect()
    }

    const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    #[test]
    fn each_proxy_is_the_home_of_about_its_share() {
        let homes = names(&members(&EIGHT));
        for name in EIGHT {
            let share = homes.iter().filter(|home| *home == name).count() as f64 / (PARTITIONS as f64 / 8.0);
            assert!((0.85..1.15).contains(&share), "{name} has {share} of its share");
        }
    }

    #[test]
    fn who_leaves_moves_its_own_share_alone() {
        let (before, after) = (names(&members(&EIGHT)), names(&members(&EIGHT[..7])));
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || before == "h");
        }
        assert!(after.iter().all(|home| home != "h"));
    }

    /// Of each key's two homes the first is its home, and if that one leaves it is the second.
    #[test]
    fn the_second_home_is_the_next_one() {
        let (before, after) = (members(&EIGHT), members(&EIGHT[..7]));
        for n in 0..PARTITIONS as u16 {
            let mut key = [0; 16];
            key[..2].copy_from_slice(&n.to_le_bytes());
            let two = before.homes_of(&key, 2);
            assert_eq!((two.len(), Some(two[0])), (2, before.home(&key)));
            if two[0] == NodeId(7) {
                assert_eq!(after.home(&key), Some(two[1]));
            }
        }
        assert_eq!(before.homes_of(&[0; 16], 20).len(), 8);
    }

    #[test]
    fn the_order_in_which_nodes_started_changes_nothing() {
        let reversed: Vec<&str> = EIGHT.iter().rev().copied().collect();
        assert_eq!(names(&members(&EIGHT)), names(&members(&reversed)));
    }

    #[test]
    fn passive_nodes_are_no_homes_and_without_proxies_there_are_none() {
        let mut all = members(&EIGHT).all;
        all.get_mut(&NodeId(3)).unwrap().role = Role::Passive;
        assert!(!names(&Members::new(all.clone())).contains(&"d".to_owned()));
        all.values_mut().for_each(|member| member.role = Role::Passive);
        assert_eq!(Members::new(all).home(&[7; 16]), None);
        assert!(Members::default().is_empty());
    }
}
