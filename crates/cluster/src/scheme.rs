//! The paper's schemes, as rules about where there is room. All else is the same for all of them.

use crate::members::{NodeId, Role};

/// A scheme of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// AC: every node caches for itself. What the others are compared with.
    Ac,
    /// BCC, basic cooperative caching (3.1): what another node has is copied.
    Bcc,
    /// CCWR, cooperative cache without redundancy (3.2): redundant copies go before anything else does.
    #[default]
    Ccwr,
    /// MTACC, multi-tier aggregate (3.3): as CCWR, and passive nodes lend memory too.
    Mtacc,
    /// HYBCC, hybrid (3.4): small objects stay on the proxies, large ones go by MTACC.
    Hybcc {
        /// The largest that is small, in bytes. The paper does not say.
        small_bytes: u32,
        /// The rule for small ones, of which the paper says two things.
        small: Small,
    },
}

/// How small objects are treated by [`Scheme::Hybcc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Small {
    /// As BCC: "not checked for duplications" (3.4).
    #[default]
    AsBcc,
    /// As CCWR: "HYBCC uses CCWR for small cache entities" (4.1).
    AsCcwr,
}

/// What a scheme says of objects of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Nodes look for what others have, and say what they have.
    pub shares: bool,
    /// Redundant copies go first, and what is fetched is not copied but moved.
    pub avoids_redundancy: bool,
    /// Passive nodes lend memory.
    pub uses_passive: bool,
}

impl Scheme {
    /// The scheme for objects of this size.
    pub fn rules(self, bytes: u32) -> Rules {
        let rules = |shares, avoids_redundancy, uses_passive| Rules { shares, avoids_redundancy, uses_passive };
        match self {
            Scheme::Ac => rules(false, false, false),
            Scheme::Bcc => rules(true, false, false),
            Scheme::Ccwr => rules(true, true, false),
            Scheme::Mtacc => rules(true, true, true),
            Scheme::Hybcc { small_bytes, small } if bytes <= small_bytes => rules(true, small == Small::AsCcwr, false),
            Scheme::Hybcc { .. } => rules(true, true, true),
        }
    }

    /// Whether any object is shared.
    pub fn shares(self) -> bool {
        self != Scheme::Ac
    }
}

/// What room a node has: its page table, as far as others need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Slots that are free.
    pub free: u32,
    /// Slots with copies that are redundant.
    pub redundant: u32,
    /// Slots with other objects, none of which is being moved.
    pub others: u32,
}

/// Where an object goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To a free slot of one's own.
    Free,
    /// In the place of one's own redundant copy that was not used for the longest time.
    Redundant,
    /// To a node that has a free slot.
    At(NodeId),
    /// To a node that has a redundant copy.
    InsteadAt(NodeId),
    /// In the place of what one has not used for the longest time.
    Victim,
    /// To where what is fetched for it comes from.
    Swap,
    /// There is no room, as everything is being moved.
    Nowhere,
}

/// Where what was fetched from another node goes (3.1, 3.2, "cache fetch").
///
/// The paper has BCC look for "local free space" and else choose a replacement "where free space is not available system-wide": here the replacement is local, as the
/// object is in the system already and memory elsewhere would not bring it nearer.
pub fn for_fetched(rules: Rules, own: Room) -> Place {
    match rules {
        _ if own.free > 0 => Place::Free,
        Rules { avoids_redundancy: true, .. } if own.redundant > 0 => Place::Redundant,
        Rules { avoids_redundancy: true, .. } if own.others > 0 => Place::Swap,
        Rules { avoids_redundancy: false, .. } if own.others + own.redundant > 0 => Place::Victim,
        _ => Place::Nowhere,
    }
}

/// Where what comes from an origin goes (3.1, 3.2, "cache store"): into one's own free space, another node's, in the place of one's own redundant copy, of another
/// node's, of a victim. Of the nodes with room, the one that has most of it.
pub fn for_stored(rules: Rules, own: Room, others: impl Iterator<Item = (NodeId, Role, Room)> + Clone) -> Place {
    let may_ask = |role| rules.shares && (role == Role::Proxy || rules.uses_passive);
    let most = |of: fn(&Room) -> u32| {
        let with = others.clone().filter(move |(_, role, room)| may_ask(*role) && of(room) > 0);
        with.max_by_key(|(id, _, room)| (of(room), *id)).map(|(id, _, _)| id)
    };
    if own.free > 0 {
        return Place::Free;
    }
    if let Some(node) = most(|room| room.free) {
        return Place::At(node);
    }
    if rules.avoids_redundancy {
        if own.redundant > 0 {
            return Place::Redundant;
        }
        if let Some(node) = most(|room| room.redundant) {
            return Place::InsteadAt(node);
        }
    }
    if own.others + own.redundant > 0 { Place::Victim } else { Place::Nowhere }
}

/// Why another node has sent an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It has come from an origin, and the other node had no room.
    Stored,
    /// The other node is fetching something that is here, and what is here may go.
    Exchanged,
    /// The same, but it is here no longer or is going elsewhere already.
    InVain,
}

/// Where what another node has sent goes. A node that is asked to store something is responsible for it, and finds a victim for it; in an exchange it gives up
/// what is fetched from it, and nothing else: else two nodes that fetch the same object would cost a third one.
pub fn for_sent(rules: Rules, own: Room, sent: Sent) -> Place {
    match (rules, sent) {
        _ if own.free > 0 => Place::Free,
        (Rules { avoids_redundancy: true, .. }, _) if own.redundant > 0 => Place::Redundant,
        (_, Sent::Exchanged) => Place::Swap,
        (_, Sent::Stored) if own.others + own.redundant > 0 => Place::Victim,
        _ => Place::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const P: NodeId = NodeId(3);

    fn room(free: u32, redundant: u32, others: u32) -> Room {
        Room { free, redundant, others }
    }

    fn hybrid(small: Small) -> Scheme {
        Scheme::Hybcc { small_bytes: 8192, small }
    }

    #[test]
    fn a_fetched_object_goes_where_the_scheme_says() {
        let cases = [
            (Scheme::Bcc, room(1, 1, 1), Place::Free),
            (Scheme::Bcc, room(0, 1, 1), Place::Victim),
            (Scheme::Ccwr, room(1, 1, 1), Place::Free),
            (Scheme::Ccwr, room(0, 1, 1), Place::Redundant),
            (Scheme::Ccwr, room(0, 0, 1), Place::Swap),
            (Scheme::Mtacc, room(0, 0, 1), Place::Swap),
            (Scheme::Ccwr, room(0, 0, 0), Place::Nowhere),
            (Scheme::Bcc, room(0, 0, 0), Place::Nowhere),
            (hybrid(Small::AsBcc), room(0, 0, 1), Place::Victim),
            (hybrid(Small::AsCcwr), room(0, 0, 1), Place::Swap),
        ];
        for (scheme, own, place) in cases {
            assert_eq!(for_fetched(scheme.rules(8192), own), place, "{scheme:?} {own:?}");
        }
        assert_eq!(for_fetched(hybrid(Small::AsBcc).rules(8193), room(0, 0, 1)), Place::Swap, "a large one");
    }

    #[test]
    fn a_stored_object_goes_where_the_scheme_says() {
        let none =
            [(A, Role::Proxy, room(0, 0, 9)), (B, Role::Proxy, room(0, 0, 9)), (P, Role::Passive, room(0, 0, 0))];
        let with =
            |node: NodeId, room: Room| none.map(|(id, role, own)| (id, role, if id == node { room } else { own }));
        let full = room(0, 0, 9);
        let cases = [
            (Scheme::Bcc, room(1, 0, 9), with(A, room(9, 9, 9)), Place::Free),
            (Scheme::Bcc, full, with(A, room(1, 0, 0)), Place::At(A)),
            (Scheme::Bcc, full, with(P, room(9, 0, 0)), Place::Victim),
            (Scheme::Bcc, room(0, 1, 9), with(A, room(0, 9, 0)), Place::Victim),
            (Scheme::Ccwr, room(0, 1, 9), with(B, room(1, 0, 0)), Place::At(B)),
            (Scheme::Ccwr, room(0, 1, 9), with(B, room(0, 9, 0)), Place::Redundant),
            (Scheme::Ccwr, full, with(B, room(0, 2, 0)), Place::InsteadAt(B)),
            (Scheme::Ccwr, full, with(P, room(9, 9, 0)), Place::Victim),
            (Scheme::Mtacc, full, with(P, room(9, 9, 0)), Place::At(P)),
            (Scheme::Mtacc, room(0, 0, 0), none, Place::Nowhere),
            (Scheme::Ac, full, with(A, room(9, 9, 9)), Place::Victim),
            (hybrid(Small::AsBcc), full, with(P, room(9, 9, 0)), Place::Victim),
            (hybrid(Small::AsCcwr), room(0, 1, 1), with(P, room(9, 9, 0)), Place::Redundant),
        ];
        for (scheme, own, others, place) in cases {
            assert_eq!(for_stored(scheme.rules(100), own, others.into_iter()), place, "{scheme:?} {own:?} {others:?}");
        }
        let two = [(A, Role::Proxy, room(3, 0, 0)), (B, Role::Proxy, room(4, 0, 0))];
        assert_eq!(for_stored(Scheme::Ccwr.rules(1), full, two.into_iter()), Place::At(B), "most room");
    }

    #[test]
    fn a_sent_object_goes_where_the_scheme_says() {
        let cases = [
            (Scheme::Bcc, room(1, 1, 1), Sent::Stored, Place::Free),
            (Scheme::Bcc, room(0, 1, 1), Sent::Stored, Place::Victim),
            (Scheme::Ccwr, room(0, 1, 1), Sent::Exchanged, Place::Redundant),
            (Scheme::Ccwr, room(0, 0, 1), Sent::Exchanged, Place::Swap),
            (Scheme::Ccwr, room(0, 0, 1), Sent::Stored, Place::Victim),
            (Scheme::Ccwr, room(0, 0, 1), Sent::InVain, Place::Nowhere),
            (Scheme::Ccwr, room(0, 0, 0), Sent::Stored, Place::Nowhere),
        ];
        for (scheme, own, sent, place) in cases {
            assert_eq!(for_sent(scheme.rules(8192), own, sent), place, "{scheme:?} {own:?} {sent:?}");
        }
    }
}
