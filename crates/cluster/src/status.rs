//! What a node says of the cluster.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// How things are, as one node sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The cluster's name.
    pub cluster: String,
    /// This node's.
    pub node: String,
    /// Where it is reached.
    pub address: SocketAddr,
    /// The scheme.
    pub scheme: String,
    /// On whose disks objects lie.
    pub disks: String,
    /// Of the 4096 parts of all keys, those whose home it is.
    pub own_homes: u64,
    /// Slots that are free.
    pub free: u32,
    /// Slots with copies that are redundant.
    pub redundant: u32,
    /// Slots with other objects.
    pub others: u32,
    /// Objects in its memory.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that it lists as their home.
    pub listed: u64,
    /// Bytes of their copies beyond the first of each.
    pub duplicate_bytes: u64,
    /// How many other nodes know this one, as they have said. Nothing is put into the shared memory until all do.
    pub known_by: u64,
    /// What it counts.
    pub counts: BTreeMap<String, u64>,
    /// The other nodes.
    pub peers: Vec<Peer>,
    /// Nodes that are there and cannot be members: name, address, why.
    pub refused: Vec<(String, SocketAddr, String)>,
    /// Seconds since 1970: what was stored before is validated before it is served.
    pub distrusted_before: u64,
    /// Whether it began so short a time ago that it validates everything again whenever it meets another node.
    pub is_young: bool,
    /// What was to be sent to other nodes and was not.
    pub lost: u64,
    /// How each node's memory is read, and whether that is without its help, by the number of its life.
    #[serde(skip)]
    pub(crate) ways: HashMap<u64, (String, bool)>,
    /// The homes of each node, by the number of its life.
    #[serde(skip)]
    pub(crate) homes: HashMap<u64, u64>,
}

/// Another node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub address: SocketAddr,
    /// Whether there is a connection to it.
    pub is_up: bool,
    /// Whether it lends memory alone.
    pub is_passive: bool,
    /// Of the 4096 parts of all keys, those whose home it is.
    pub homes: u64,
    /// How its memory is read.
    pub transport: String,
    /// Whether that is without its help.
    pub one_sided: bool,
}

impl Default for Status {
    fn default() -> Status {
        Status {
            cluster: String::new(),
            node: String::new(),
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            scheme: String::new(),
            disks: String::new(),
            own_homes: 0,
            free: 0,
            redundant: 0,
            others: 0,
            objects: 0,
            bytes: 0,
            listed: 0,
            duplicate_bytes: 0,
            known_by: 0,
            counts: BTreeMap::new(),
            peers: Vec::new(),
            refused: Vec::new(),
            distrusted_before: 0,
            is_young: false,
            lost: 0,
            ways: HashMap::new(),
            homes: HashMap::new(),
        }
    }
}
