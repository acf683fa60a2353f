//! `tinaja cluster`: how the cluster is, as one of its nodes sees it; and joining it.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _, stdout};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use parking_lot::Mutex;
use tinaja_cluster::comers;
use tinaja_cluster::disks::{self, Disks};
use tinaja_cluster::members::NodeId;
use tinaja_cluster::status::Status;
use tinaja_cluster::tls::Identity;
use tinaja_cluster::{Comers, JoinError, Joining, Pooled};
use tinaja_proxy::admin::Describe;
use tinaja_proxy::admin::words::{Answer, Ask};
use tinaja_proxy::{Neighbours, Nodes, OtherNode, Others, Way};
use tinaja_store::{Clock, Key, Store};

use crate::control;
use crate::flags::{Cluster, ClusterAction};
use crate::settings;

/// The node of this process, while there is one.
#[derive(Clone, Default)]
pub struct OwnNode {
    node: Arc<Mutex<Option<Pooled>>>,
    /// Who answers what other nodes want.
    comers: Comers,
}

impl OwnNode {
    /// A node to be, its neighbours, if objects lie on the disks of all of them, and the others, who are told what is taken back.
    ///
    /// Errors: its certificates are of no use.
    pub fn new(joining: Option<&Joining>) -> Result<(OwnNode, Option<Neighbours>, Option<Nodes>), JoinError> {
        let Some(joining) = joining else { return Ok((OwnNode::default(), None, None)) };
        let mut own = OwnNode::default();
        let nodes = own.nodes();
        if joining.disks == Disks::Own {
            return Ok((own, None, Some(nodes)));
        }
        let identity = Identity::read(&joining.files, &joining.cluster, &Clock::system())?;
        let (visitors, come) = comers::visitors();
        own.comers.visitors = Some(visitors);
        let (node, same, here) = (own.node.clone(), own.node.clone(), own.node.clone());
        let disk = move || here.lock().as_ref().map(Pooled::below);
        let is_there = move |address| same.lock().as_ref().is_some_and(|node| node.node().is_there(address));
        let way = move |key: &Key| {
            let disks::Way { keeps, ask, before, own } =
                node.lock().as_ref().map_or(disks::Way::ALONE, |node| node.node().way(key));
            Way { keeps, ask, before, own }
        };
        let neighbours = Neighbours::new(
            Box::new(way),
            Box::new(is_there),
            Box::new(disk),
            (identity.fetch, identity.server),
            joining.patience,
            joining.object_bytes,
            come,
        );
        Ok((own, Some(neighbours), Some(nodes)))
    }

    /// The other nodes, as a proxy tells them what is taken back.
    fn nodes(&mut self) -> Nodes {
        let (node, asking) = (self.node.clone(), self.node.clone());
        let (calls, called) = comers::calls();
        self.comers.calls = Some(calls);
        let others = move || {
            // A node that did not join, or has left, has no others.
            let Some(node) = node.lock().clone() else { return Others::default() };
            let others = node.node().others().into_iter().map(|(id, name)| OtherNode { id: id.0, name });
            Others { nodes: others.collect(), is_young: node.node().is_young() && !node.node().is_meant_to_be_alone() }
        };
        Nodes::new(
            Box::new(others),
            Box::new(move |id, said| {
                let node = asking.lock().clone();
                Box::pin(async move { node?.node().call(NodeId(id), said).await })
            }),
            called,
        )
    }

    /// A store as a node of a cluster. Errors: why it cannot be one.
    pub fn join(&self, store: Arc<dyn Store>, joining: Joining) -> Result<Arc<dyn Store>, JoinError> {
        let pooled = Pooled::join(store, joining, self.comers.clone())?;
        *self.node.lock() = Some(pooled.clone());
        Ok(Arc::new(pooled))
    }

    /// Whom to ask how the cluster is.
    pub fn describe(&self) -> Describe {
        let own = self.clone();
        Arc::new(move || {
            let node = own.node.lock().clone();
            Box::pin(async move {
                let status = node?.node().status().await?;
                serde_json::to_value(status).ok()
            })
        })
    }
}

/// Print what the server on a cache says of its cluster.
///
/// Errors: no server runs there, or it is in no cluster.
pub fn cluster(flags: Cluster) -> Result<()> {
    let ClusterAction::Status(flags) = flags.action;
    let dirs = settings::cache_dirs(flags.cache, flags.config.as_deref())?;
    let text = match control::ask(&dirs, &Ask::Cluster)? {
        Some(Answer::Cluster { status }) if flags.json => format!("{}\n", serde_json::to_string_pretty(&status)?),
        Some(Answer::Cluster { status }) => {
            table(&serde_json::from_value(status).context("the server is of another version")?)
        }
        Some(_) => bail!("the server sent an unexpected answer: it may be another version"),
        None => bail!("no server runs on this cache: start it, or name its cache with --cache DIR or --config FILE"),
    };
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

fn table(status: &Status) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<22}{value}");
    };
    let share = |homes: u64| format!("{:.1} % of all keys", homes as f64 / 40.96);
    let slots = u64::from(status.free + status.redundant + status.others);
    row("cluster", status.cluster.clone());
    row("node", format!("{} at {}", status.node, status.address));
    row("scheme", status.scheme.clone());
    row("disk", status.disks.clone());
    row("home of", share(status.own_homes));
    row(
        "shared memory",
        format!("{} objects, {}; {} of {slots} slots free", status.objects, bytes(status.bytes), status.free),
    );
    row("listed", format!("{} objects, {} in further copies", status.listed, bytes(status.duplicate_bytes)));
    let count = |name: &str| status.counts.get(name).copied().unwrap_or_default();
    row("found here", count("local").to_string());
    row("found on other nodes", count("remote").to_string());
    row("found nowhere", count("misses").to_string());
    row("reads that failed", (count("failed reads") + count("rejected")).to_string());
    row("messages lost", status.lost.to_string());
    let since = UNIX_EPOCH + Duration::from_secs(status.distrusted_before);
    row("validates", format!("what is from before {}", humantime::format_rfc3339_seconds(since)));
    row("other nodes", format!("{}, of which {} know this one", status.peers.len(), status.known_by));
    for peer in &status.peers {
        let is_up = if peer.is_up { "connected" } else { "not connected" };
        let role =
            if peer.is_passive { "lends memory alone".to_owned() } else { format!("home of {}", share(peer.homes)) };
        let reads = if peer.one_sided { "one-sided reads" } else { "no one-sided reads" };
        row(&format!("  {}", peer.name), format!("{} {is_up}, {role}; {}, {reads}", peer.address, peer.transport));
    }
    for (name, address, why) in &status.refused {
        row(&format!("  {name}"), format!("{address} is no node of this cluster: {why}"));
    }
    text
}

fn bytes(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}
