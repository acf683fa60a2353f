//! Connections by which other proxies of the same cache ask for objects. Each is for one listener, whose routes and rules it goes by.

use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::sync::watch;

use super::{Caller, Front, stopped};
use crate::neighbours::{LISTENER, Neighbours};
use crate::stream::Stream;

/// Answers neighbours until `stopping` says so, each connection in a task of its own. `fronts` are those of all listeners.
pub(crate) async fn visits(neighbours: Arc<Neighbours>, fronts: Vec<Arc<Front>>, stopping: watch::Receiver<bool>) {
    let mut stop = pin!(stopped(stopping.clone()));
    loop {
        let (stream, address) = tokio::select! {
            () = &mut stop => return,
            visitor = neighbours.visitor() => visitor,
        };
        let index =
            stream.get_ref().1.server_name().and_then(|name| name.strip_suffix(LISTENER)?.parse::<usize>().ok());
        // Whoever is turned away asks the origin.
        let Some(front) = index.and_then(|index| fronts.get(index)).cloned() else {
            tracing::warn!(%address, "a node of the cluster asks for a listener that is not here: configure all nodes alike");
            continue;
        };
        let Some(place) = front.crowd.enter() else { continue };
        let stopping = stopping.clone();
        let clock = front.shared.clock.clone();
        clock.start(async move {
            let caller = Caller { address: Some(address.ip()), served: None, neighbour: true };
            front.http2(Stream::Tls(stream), BytesMut::new(), caller, &stopping).await;
            drop(place);
        });
    }
}
