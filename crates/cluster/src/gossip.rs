//! Who is there: membership by gossip (chitchat), carried by the cluster's own connections, so that it is sealed as all else is.
//!
//! A node says of itself what the others need to know ([`Card`]). Nodes that do not go with this one, as they have another scheme or size of slots, are no
//! members, and it is said why. Of two lives of one node the later one counts.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chitchat::transport::{Socket, Transport};
use chitchat::{
    Chitchat, ChitchatConfig, ChitchatHandle, ChitchatId, ChitchatMessage, Deserializable, FailureDetectorConfig,
    NodeState, Serializable, spawn_chitchat,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::JoinError;
use crate::joining::Joining;
use crate::links::{Links, Work};
use crate::members::{Lends, Member, Members, NodeId, Role};

/// How often a node tells others who is there. With [`FIRST`] a node that was killed is gone everywhere after two seconds; with chitchat's defaults after eleven.
const EVERY: Duration = Duration::from_millis(200);
const FIRST: Duration = Duration::from_secs(1);
/// After how much suspicion a node is gone, as chitchat has it.
const PHI: f64 = 8.0;
/// How long it is remembered then.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// Under what name a node says what it is.
const CARD: &str = "card";

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    version: u32,
    scheme: String,
    is_passive: bool,
    slots_at: u64,
    slot_bytes: u64,
    slots: u32,
    table_at: u64,
    buckets: u32,
    software: String,
    disks: String,
    /// Of the secret that all nodes have: those whose authorities' files differ have another one.
    fingerprint: String,
}

impl Card {
    /// That of a node that lends this.
    pub fn of(joining: &Joining, lends: &Lends, secret: &[u8; 32]) -> Card {
        let Lends { slots_at, slot_bytes, slots, table_at, buckets } = *lends;
        Card {
            version: joining.protocol,
            scheme: format!("{:?}", joining.scheme),
            is_passive: joining.role == Role::Passive,
            slots_at,
            slot_bytes,
            slots,
            table_at,
            buckets,
            software: env!("CARGO_PKG_VERSION").to_owned(),
            disks: joining.disks.to_string(),
            fingerprint: blake3::keyed_hash(secret, b"fingerprint").to_hex().to_string(),
        }
    }

    fn lends(&self) -> Lends {
        let Card { slots_at, slot_bytes, slots, table_at, buckets, .. } = *self;
        Lends { slots_at, slot_bytes, slots, table_at, buckets }
    }

    /// Why the other node cannot be a member beside this one.
    fn why_not(&self, other: &Card) -> Option<String> {
        if self.version != other.version {
            return Some(format!(
                "it speaks version {} of the cluster's protocol ({}), this node version {}: use one release of Tinaja on both",
                other.version, other.software, self.version
            ));
        }
        if self.fingerprint != other.fingerprint {
            return Some("its file of authorities (ca) is not this node's: use the same file on both".to_owned());
        }
        if self.scheme != other.scheme {
            return Some(format!("its scheme is {}, this node's {}: set the same on both", other.scheme, self.scheme));
        }
        if self.disks != other.disks {
            return Some(format!(
                "its disk is \"{}\", this node's \"{}\": set the same disk and copies on both",
                other.disks, self.disks
            ));
        }
        (self.slot_bytes != other.slot_bytes).then(|| {
            format!(
                "its slots have {} bytes, this node's {}: set the same object_size on both",
                other.slot_bytes, self.slot_bytes
            )
        })
    }
}

/// Who is there, as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The members, this node among them.
    pub members: BTreeMap<NodeId, Member>,
    /// Where the others are.
    pub addresses: HashMap<NodeId, SocketAddr>,
    /// Nodes that are there and no members: their names, where they are, and why.
    pub refused: Vec<(String, SocketAddr, String)>,
}

impl View {
    /// With the homes.
    pub fn with_homes(&self) -> Members {
        Members::new(self.members.clone())
    }
}

/// One life of a node.
pub fn node_id(name: &str, generation: u64) -> NodeId {
    NodeId(xxh3_64_with_seed(name.as_bytes(), generation))
}

/// Begin to gossip. `changed` hears who is there before this ends, and whenever somebody comes or goes.
///
/// Errors: [`JoinError::System`].
pub async fn begin(
    joining: &Joining,
    own: SocketAddr,
    generation: u64,
    card: Card,
    links: Links,
    comes: mpsc::Receiver<(SocketAddr, Bytes)>,
    mut changed: impl FnMut(View) + Send + 'static,
) -> Result<ChitchatHandle, JoinError> {
    let id = ChitchatId::new(joining.node.clone(), generation, own);
    let config = ChitchatConfig {
        chitchat_id: id.clone(),
        cluster_id: joining.cluster.clone(),
        gossip_interval: EVERY,
        listen_addr: own,
        seed_nodes: joining.seeds.clone(),
        failure_detector_config: FailureDetectorConfig::new(PHI, 1000, 10 * FIRST, FIRST, REMEMBERED),
        marked_for_deletion_grace_period: REMEMBERED,
        catchup_callback: None,
        extra_liveness_predicate: None,
    };
    let said = serde_json::to_string(&card).map_err(|cause| JoinError::System(cause.to_string()))?;
    let transport = Sealed { links, comes: Mutex::new(Some(comes)) };
    let handle = spawn_chitchat(config, vec![(CARD.to_owned(), said)], &transport)
        .await
        .map_err(|cause| JoinError::System(format!("gossip does not begin: {cause:#}")))?;
    let chitchat: Arc<tokio::sync::Mutex<Chitchat>> = handle.chitchat();
    let mut watcher = chitchat.lock().await.live_nodes_watcher();
    drop(chitchat);
    // The first one before anybody asks the node something: it would have no home to look in.
    changed(view(&id, &card, &watcher.borrow_and_update()));
    tinaja_clock::Clock::system().start(async move {
        while watcher.changed().await.is_ok() {
            changed(view(&id, &card, &watcher.borrow_and_update()));
        }
    });
    Ok(handle)
}

/// Who is there, and who of them is a member.
fn view(own: &ChitchatId, card: &Card, live: &BTreeMap<ChitchatId, NodeState>) -> View {
    let mut view = View::default();
    let member = |name: &str, card: &Card| {
        let role = if card.is_passive { Role::Passive } else { Role::Proxy };
        Member { name: name.to_owned(), role, lends: card.lends() }
    };
    view.members.insert(node_id(&own.node_id, own.generation_id), member(&own.node_id, card));
    // Later lives come later, by the order of ids.
    let others = live.iter().filter(|(id, _)| *id != own);
    let latest: BTreeMap<&str, (&ChitchatId, &NodeState)> =
        others.map(|(id, state)| (&*id.node_id, (id, state))).collect();
    for (name, (id, state)) in latest {
        let address = id.gossip_advertise_addr;
        let other: Option<Card> = state.get(CARD).and_then(|said| serde_json::from_str(said).ok());
        let why_not = match &other {
            _ if name == &*own.node_id && id.generation_id < own.generation_id => continue,
            _ if name == &*own.node_id => Some("it has this node's name: give each node a name of its own".to_owned()),
            None => Some("what it says of itself is not understood: use one release of Tinaja on both".to_owned()),
            Some(other) => card.why_not(other),
        };
        match (why_not, other) {
            (None, Some(other)) => {
                let node = node_id(name, id.generation_id);
                view.members.insert(node, member(name, &other));
                view.addresses.insert(node, address);
            }
            (why, _) => view.refused.push((name.to_owned(), address, why.unwrap_or_default())),
        }
    }
    view
}

/// The cluster's connections, as chitchat wants them.
struct Sealed {
    links: Links,
    comes: Mutex<Option<mpsc::Receiver<(SocketAddr, Bytes)>>>,
}

struct Open {
    links: Links,
    comes: mpsc::Receiver<(SocketAddr, Bytes)>,
}

#[async_trait]
impl Transport for Sealed {
    async fn open(&self, _: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        let comes = self.comes.lock().take();
        let comes = comes.ok_or_else(|| anyhow::anyhow!("gossip has begun already"))?;
        Ok(Box::new(Open { links: self.links.clone(), comes }))
    }
}

#[async_trait]
impl Socket for Open {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        self.links.send(to, Work::Gossip(message.serialize_to_vec()));
        Ok(())
    }

    async fn recv(&mut self) -> anyhow::Result<(SocketAddr, ChitchatMessage)> {
        loop {
            let Some((from, bytes)) = self.comes.recv().await else { anyhow::bail!("the node has left") };
            match ChitchatMessage::deserialize(&mut &bytes[..]) {
                Ok(message) => return Ok((from, message)),
                Err(why) => tracing::debug!(%from, %why, "gossip that is none"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(scheme: crate::scheme::Scheme, object_bytes: u64) -> Card {
        let joining = Joining { scheme, object_bytes, ..Joining::default() };
        Card::of(&joining, &joining.lends().unwrap().0, &[7; 32])
    }

    #[test]
    fn nodes_that_do_not_go_together_are_told_why() {
        use crate::scheme::Scheme;
        let own = card(Scheme::Ccwr, 8192);
        assert_eq!(own.why_not(&own), None);
        for (other, why) in [
            (card(Scheme::Bcc, 8192), "its scheme is Bcc, this node's Ccwr"),
            (card(Scheme::Ccwr, 16384), "set the same object_size"),
            (Card { version: 1, ..own.clone() }, "use one release of Tinaja"),
            (Card { disks: "home, copies 2".to_owned(), ..own.clone() }, "set the same disk and copies"),
        ] {
            let said = own.why_not(&other).unwrap();
            assert!(said.contains(why), "{said}");
        }
    }
}
