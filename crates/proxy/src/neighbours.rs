//! Other proxies with which this one has one cache on their disks: whom to ask before an origin, and who asks here.
//!
//! The caller knows who they are (`tinaja-cluster`), and has seen to it that connections come from nobody else.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderName;
use parking_lot::Mutex;
use rustls::{ClientConfig, ServerConfig};
use tinaja_store::{Key, Store};
use tokio::sync::mpsc;

/// What a neighbour asks for: the place of the object, and what a key rule of its says of the request, so that nothing else is taken for it.
pub(crate) const OBJECT: HeaderName = HeaderName::from_static("tinaja-object");
/// For whom: rules judge the client and not the neighbour.
pub(crate) const CLIENT: HeaderName = HeaderName::from_static("tinaja-client");
/// The address of a neighbour that has the object: whoever is told so is to fetch it from there, and to answer once it has.
pub(crate) const HAS: HeaderName = HeaderName::from_static("tinaja-has");
/// The client's request came in a tunnel that is intercepted: it is stored and logged accordingly.
pub(crate) const INTERCEPTED: HeaderName = HeaderName::from_static("tinaja-intercepted");
/// In the answer: the origin's address that the object came from. An answer without it is a page of the neighbour's own.
pub(crate) const FETCHED_FROM: HeaderName = HeaderName::from_static("tinaja-fetched-from");

/// In the answer: which bans had been made when the object's origin was asked for it, and the hashes of what that calls it.
pub(crate) const ASKED_AT: HeaderName = HeaderName::from_static("tinaja-asked-at");

/// In a page of a neighbour's own: the origin has failed it, so that further neighbours would fare no better.
pub(crate) const TRIED: HeaderName = HeaderName::from_static("tinaja-tried");

/// What follows the number of a listener in the name that a connection to a neighbour's is made for.
pub(crate) const LISTENER: &str = ".listener.tinaja";

/// A neighbour that did not answer is not asked again for so long. By then whoever knows the neighbours has usually noticed.
const REST: Duration = Duration::from_secs(1);
/// Neighbours that are at rest, at most; of more none rests.
const MOST_RESTING: usize = 1024;
/// Neighbours that are being told of something at once. Of more nobody is told: they fetch it when they are asked for it. Each holds
/// a request's head.
const MOST_TOLD: usize = 64;

/// A place in the store, and what counts of the request besides, as one neighbour tells it another.
pub(crate) fn mark_of(place: &Key, counts: Option<&[u8]>) -> String {
    let mut mark = *place.digest();
    if let Some(counts) = counts {
        blake3::Hasher::new().update(place.digest()).update(counts).finalize_xof().fill(&mut mark);
    }
    mark.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A connection by which a neighbour asks, before its handshake, and where it comes from.
pub type Visitor = (TcpStream, SocketAddr);

/// Where one object lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether this proxy keeps it on its disk.
    pub keeps: bool,
    /// Whom it asks before the origin, in this order.
    pub ask: Vec<SocketAddr>,
    /// Who keeps it as well, and would ask this one.
    pub before: Vec<SocketAddr>,
    /// Where others ask this one, where there are others.
    pub own: Option<SocketAddr>,
}

/// What a proxy is told of its neighbours. Memory: one address for each that is at rest.
pub struct Neighbours {
    /// Where an object lies, as far as is known at the moment.
    pub way: Box<dyn Fn(&Key) -> Way + Send + Sync>,
    /// Whether a neighbour is there, as far as is known at the moment.
    pub is_there: Box<dyn Fn(SocketAddr) -> bool + Send + Sync>,
    /// This proxy's own store, without what is in others' memory; while there is one.
    pub disk: Box<dyn Fn() -> Option<Arc<dyn Store>> + Send + Sync>,
    /// How they are connected to.
    pub tls: Arc<ClientConfig>,
    /// How those who ask here are told from others.
    pub server: Arc<ServerConfig>,
    /// How long a neighbour may take to accept a connection, and to say that it is about a request.
    pub patience: Duration,
    /// The largest object that is worth a place in this proxy's store though it keeps it not on its disk.
    pub shared_bytes: u64,
    /// Those who ask here.
    pub visitors: tokio::sync::Mutex<mpsc::Receiver<Visitor>>,
    resting: Mutex<HashMap<SocketAddr, Instant>>,
    /// Who is being told of what.
    telling: Mutex<HashSet<(SocketAddr, Key)>>,
}

impl fmt::Debug for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Neighbours").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Neighbours {
    /// These.
    pub fn new(
        way: Box<dyn Fn(&Key) -> Way + Send + Sync>,
        is_there: Box<dyn Fn(SocketAddr) -> bool + Send + Sync>,
        disk: Box<dyn Fn() -> Option<Arc<dyn Store>> + Send + Sync>,
        (tls, server): (Arc<ClientConfig>, Arc<ServerConfig>),
        patience: Duration,
        shared_bytes: u64,
        visitors: mpsc::Receiver<Visitor>,
    ) -> Neighbours {
        let visitors = tokio::sync::Mutex::new(visitors);
        let (resting, telling) = (Mutex::default(), Mutex::default());
        Neighbours { way, is_there, disk, tls, server, patience, shared_bytes, visitors, resting, telling }
    }

    /// The next one who asks here; never, once nobody can any more.
    pub(crate) async fn visitor(&self) -> Visitor {
        match self.visitors.lock().await.recv().await {
            Some(visitor) => visitor,
            None => std::future::pending().await,
        }
    }

    /// Whether a neighbour may be asked now.
    pub(crate) fn may_ask(&self, neighbour: SocketAddr, now: Instant) -> bool {
        let mut resting = self.resting.lock();
        resting.retain(|_, until| now < *until);
        !resting.contains_key(&neighbour)
    }

    /// Whether a neighbour may be told of an object now: it is not yet, and there is room.
    pub(crate) fn begin_telling(&self, neighbour: SocketAddr, place: &Key) -> bool {
        let mut telling = self.telling.lock();
        telling.len() < MOST_TOLD && telling.insert((neighbour, place.clone()))
    }

    /// It has been told, or will not be.
    pub(crate) fn end_telling(&self, neighbour: SocketAddr, place: &Key) {
        self.telling.lock().remove(&(neighbour, place.clone()));
    }

    /// One has not answered.
    pub(crate) fn rest(&self, neighbour: SocketAddr, now: Instant) {
        let mut resting = self.resting.lock();
        if resting.len() < MOST_RESTING {
            resting.insert(neighbour, now + REST);
        }
    }
}
