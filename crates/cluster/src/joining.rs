//! What a cluster is joined with.

use std::net::SocketAddr;
use std::time::Duration;

use tinaja_clock::Clock;

use crate::disks::Disks;
use crate::error::JoinError;
use crate::lent;
use crate::limits::MAX_OBJECT_BYTES;
use crate::members::{Lends, Role};
use crate::packed;
use crate::scheme::Scheme;
use crate::tls::{Files, Identity};

/// The largest object in the shared memory where nothing else is said: most objects of the web are smaller.
const DEFAULT_OBJECT_BYTES: u64 = 16 * 1024;
/// What a payload has beside head and body: what is around them, and a name as long as most are.
const AROUND: u64 = 512;

/// The version of what nodes of this release tell each other. Those of version 1 hear of no purge but of a URL's.
pub const PROTOCOL: u32 = 2;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Joining {
    /// The cluster's name. Nodes of other clusters under the same authority are not its nodes.
    pub cluster: String,
    /// This node's name, which no other node has. It stays when the node starts again.
    pub node: String,
    /// Where other nodes reach this one.
    pub listen: SocketAddr,
    /// Where they are told to, if that is another address.
    pub advertise: Option<SocketAddr>,
    /// Addresses of other nodes, of which one that answers will do: `host:port`.
    pub seeds: Vec<String>,
    /// Who this node is, and whom it believes.
    pub files: Files,
    /// The scheme. All nodes have the same.
    pub scheme: Scheme,
    /// Memory that this node lends, in bytes.
    pub memory_bytes: u64,
    /// The largest object that is kept in it, with its head, in bytes. All nodes have the same.
    pub object_bytes: u64,
    /// Whether it keeps a share of the key-table.
    pub role: Role,
    /// On whose disks objects lie. All nodes have the same.
    pub disks: Disks,
    /// The ways by which other nodes may read this one's memory without its help: [`crate::lent::SHARED_MEMORY`] for those on this machine, and interfaces for
    /// RDMA by their names. Whoever reaches one of them may read the memory. Others ask by HTTP/2.
    pub one_sided: Vec<String>,
    /// How long another node may take to answer, before this one does without.
    pub patience: Duration,
    /// The version of the cluster's protocol that it says it speaks. Nodes of another one refuse it. Default: this release's; another number makes a node
    /// of another release for a test.
    pub protocol: u32,
}

impl Joining {
    /// Whether a cluster could be joined so, as far as that can be told without doing it.
    ///
    /// Errors: as [`crate::joined::Joined::join`], but for addresses.
    pub fn check(&self, clock: &Clock) -> Result<(), JoinError> {
        Identity::read(&self.files, &self.cluster, clock)?;
        lent::open(&self.one_sided)?;
        self.lends().map(drop)
    }

    /// How the memory is cut. Errors: it is too little for a single object of the largest size.
    pub fn lends(&self) -> Result<(Lends, u64), JoinError> {
        let too_large = || {
            let most = MAX_OBJECT_BYTES >> 20;
            JoinError::Memory(format!("object_size is {} bytes: at most {most} MiB", self.object_bytes))
        };
        if self.object_bytes > MAX_OBJECT_BYTES {
            return Err(too_large());
        }
        let payload = u32::try_from(self.object_bytes + AROUND).map_err(|_| too_large())?;
        let slot = Lends::cut(1, payload, 0).0.slot_bytes;
        let objects = u32::try_from(self.memory_bytes / slot.max(1)).unwrap_or(u32::MAX);
        let listed = match self.role {
            // Its share of all nodes' objects is about as large as what it holds itself; and as nodes come and go, twice that.
            Role::Proxy => objects.saturating_mul(2).max(1024),
            Role::Passive => 0,
        };
        if objects == 0 {
            let why = format!(
                "memory is {} bytes, too little for one object of object_size ({} bytes): make memory larger or object_size smaller",
                self.memory_bytes, self.object_bytes
            );
            return Err(JoinError::Memory(why));
        }
        Ok(Lends::cut(objects, payload, listed))
    }

    /// Whether such an object may be kept in a slot.
    pub(crate) fn fits(&self, key: &tinaja_store::Key, head: &[u8], body_bytes: u64) -> bool {
        packed::packed_bytes(key, head, body_bytes) <= self.object_bytes + AROUND
    }
}

impl Default for Joining {
    fn default() -> Joining {
        Joining {
            cluster: "tinaja".to_owned(),
            node: String::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7946)),
            advertise: None,
            seeds: Vec::new(),
            files: Files { ca: Default::default(), certificate: Default::default(), key: Default::default() },
            scheme: Scheme::default(),
            memory_bytes: 64 << 20,
            object_bytes: DEFAULT_OBJECT_BYTES,
            role: Role::Proxy,
            disks: Disks::default(),
            one_sided: Vec::new(),
            patience: Duration::from_millis(500),
            protocol: PROTOCOL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_cut_or_it_is_said_why_not() {
        let (lends, bytes) = Joining::default().lends().unwrap();
        assert_eq!(lends.slots, 3962 + 16, "64 MiB in slots of 16 KiB and what is around them, and buffers");
        assert!(bytes > 64 << 20 && bytes < 72 << 20, "{bytes}");
        let said = |joining: Joining| joining.lends().unwrap_err().to_string();
        let too_little = said(Joining { memory_bytes: 1000, ..Joining::default() });
        assert!(too_little.contains("make memory larger"), "{too_little}");
        let too_large = said(Joining { object_bytes: 1 << 30, ..Joining::default() });
        assert!(too_large.contains("at most 16 MiB"), "{too_large}");
    }
}
