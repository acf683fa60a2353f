//! On whose disks objects lie, and whom a node asks for one before its origin.
//!
//! With `disk = "own"` each node has on its disk what it has fetched. With `disk = "home"` each object lies on the disks of its homes alone: the nodes whose
//! hash with it is the highest, as many as there are to be copies. A node asks the first of them, that one the second, and the last the origin. So one fetch does
//! for the whole cluster and each home has a copy after it. Since each asks only those behind itself no request goes round; whoever has got something that a
//! home could not be asked for tells that home, which fetches it from there.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;

use crate::limits::MAX_DISK_COPIES;
use crate::members::{Members, NodeId};
use crate::slots::SlotKey;

/// On whose disks objects lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disks {
    /// Of whoever has fetched it.
    #[default]
    Own,
    /// Of its homes.
    Home {
        /// How many there are; at most [`MAX_DISK_COPIES`].
        copies: usize,
    },
}

impl fmt::Display for Disks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disks::Own => f.write_str("own"),
            Disks::Home { copies } => write!(f, "home, copies {copies}"),
        }
    }
}

/// Where one object lies, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether this node keeps it on its disk.
    pub keeps: bool,
    /// Whom it asks before the origin, in this order.
    pub ask: Vec<SocketAddr>,
    /// Homes before this one, which would ask it in turn.
    pub before: Vec<SocketAddr>,
    /// Where others ask this one; nothing if there are no others.
    pub own: Option<SocketAddr>,
}

impl Way {
    /// As if there were no other node.
    pub const ALONE: Way = Way { keeps: true, ask: Vec::new(), before: Vec::new(), own: None };
}

/// The members, and where they are.
#[derive(Debug, Default)]
pub(crate) struct Known {
    members: Members,
    addresses: HashMap<NodeId, SocketAddr>,
}

impl Known {
    pub fn new(members: Members, addresses: HashMap<NodeId, SocketAddr>) -> Known {
        Known { members, addresses }
    }

    pub fn is_there(&self, address: SocketAddr) -> bool {
        self.addresses.values().any(|one| *one == address)
    }

    /// Where an object lies, for one of the members.
    pub fn way(&self, (own, address): (NodeId, SocketAddr), key: &SlotKey, disks: Disks) -> Way {
        let Disks::Home { copies } = disks else { return Way::ALONE };
        let homes = self.members.homes_of(key, copies.clamp(1, MAX_DISK_COPIES));
        let at = homes.iter().position(|home| *home == own);
        let (before, behind) = homes.split_at(at.unwrap_or_default());
        let others = |homes: &[NodeId]| homes.iter().filter_map(|home| self.addresses.get(home).copied()).collect();
        Way {
            keeps: at.is_some() || homes.is_empty(),
            ask: others(behind),
            before: others(before),
            own: (!self.addresses.is_empty()).then_some(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::{Lends, Member, Role};

    const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7946);

    fn known(own: u64, nodes: &[(u64, Role)]) -> Known {
        let lends = Lends { slots_at: 0, slot_bytes: 64, slots: 1, table_at: 0, buckets: 1 };
        let member =
            |(node, role): &(u64, Role)| (NodeId(*node), Member { name: format!("box-{node}"), role: *role, lends });
        let address = |(node, _): &(u64, Role)| (NodeId(*node), SocketAddr::from(([10, 0, 0, *node as u8], 7946)));
        let addresses = nodes.iter().filter(|(node, _)| *node != own).map(address).collect();
        Known { members: Members::new(nodes.iter().map(member).collect()), addresses }
    }

    fn key(n: u32) -> SlotKey {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&n.wrapping_mul(0x9E37_79B9).to_le_bytes());
        key
    }

    /// Of four nodes, whichever is asked first: who keeps an object is the same for all, each asks only those behind itself, and the last
    /// asks the origin.
    #[test]
    fn a_request_goes_from_home_to_home_and_each_keeps_a_copy() {
        let nodes = [1, 2, 3, 4].map(|node| (node, Role::Proxy));
        for copies in 1..=5 {
            for n in 0..200 {
                let way = |own: u64| known(own, &nodes).way((NodeId(own), HERE), &key(n), Disks::Home { copies });
                let keeping: Vec<u64> = (1..=4).filter(|own| way(*own).keeps).collect();
                assert_eq!(keeping.len(), copies.min(4));
                for first in 1..=4_u64 {
                    let (mut at, mut kept, mut steps) = (first, usize::from(way(first).keeps), 0);
                    while let Some(next) = way(at).ask.first() {
                        let SocketAddr::V4(address) = next else { unreachable!() };
                        at = u64::from(address.ip().octets()[3]);
                        assert!(way(at).keeps, "a node that keeps nothing is asked");
                        (kept, steps) = (kept + 1, steps + 1);
                        assert!(steps <= copies, "it goes round");
                    }
                    // With those that are told of it, each home has it in the end.
                    let told = way(first).before.len();
                    assert!(kept + told == copies.min(4), "{kept} of {copies} have it, {told} are told");
                }
            }
        }
    }

    #[test]
    fn without_homes_each_keeps_its_own() {
        assert_eq!(
            known(1, &[(1, Role::Proxy), (2, Role::Proxy)]).way((NodeId(1), HERE), &key(1), Disks::Own),
            Way::ALONE
        );
        // Passive nodes are no homes: they ask those that are, and keep nothing.
        let passive = known(1, &[(1, Role::Passive), (2, Role::Proxy)]).way(
            (NodeId(1), HERE),
            &key(1),
            Disks::Home { copies: 2 },
        );
        assert_eq!((passive.keeps, passive.ask.len()), (false, 1));
        let alone = known(1, &[(1, Role::Passive)]).way((NodeId(1), HERE), &key(1), Disks::Home { copies: 2 });
        assert_eq!(alone, Way::ALONE);
    }
}
