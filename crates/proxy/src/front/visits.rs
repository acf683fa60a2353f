//! Connections by which other proxies of the same cache ask for objects. Each is for one listener, whose routes and rules it goes by.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Caller, Front, stopped};
use crate::neighbours::{LISTENER, Neighbours};
use crate::stream::Stream;
use crate::tls::READ_BYTES;

/// Answers neighbours until `stopping` says so, each connection in a task of its own. `fronts` are those of all listeners.
pub(crate) async fn visits(neighbours: Arc<Neighbours>, fronts: Vec<Arc<Front>>, stopping: watch::Receiver<bool>) {
    let mut stop = pin!(stopped(stopping.clone()));
    loop {
        let (stream, address) = tokio::select! {
            () = &mut stop => return,
            visitor = neighbours.visitor() => visitor,
        };
        // Whoever is turned away asks the origin.
        let Some(first) = fronts.first() else { return };
        let Some(place) = first.crowd.enter() else { continue };
        let (clock, limit) = (first.shared.clock.clone(), first.shared.limits.head);
        let (neighbours, fronts, stopping) = (neighbours.clone(), fronts.clone(), stopping.clone());
        clock.clone().start(async move {
            match clock.timeout(limit, accept(&neighbours, stream)).await {
                Ok(Ok(stream)) => visit(&fronts, stream, address, &stopping).await,
                Ok(Err(why)) => tracing::debug!(%address, %why, "a node of the cluster asks for objects in vain"),
                Err(_) => {}
            }
            drop(place);
        });
    }
}

/// The handshake.
async fn accept(
    neighbours: &Neighbours,
    stream: std::net::TcpStream,
) -> io::Result<Box<TlsStream<BufReader<TcpStream>>>> {
    let stream = BufReader::with_capacity(READ_BYTES, TcpStream::from_std(stream)?);
    TlsAcceptor::from(neighbours.server.clone()).accept(stream).await.map(Box::new)
}

/// Answers one of them, by the listener that it asks for.
async fn visit(
    fronts: &[Arc<Front>],
    stream: Box<TlsStream<BufReader<TcpStream>>>,
    address: SocketAddr,
    stopping: &watch::Receiver<bool>,
) {
    let name = stream.get_ref().1.server_name();
    let index = name.and_then(|name| name.strip_suffix(LISTENER)?.parse::<usize>().ok());
    let Some(front) = index.and_then(|index| fronts.get(index)) else {
        tracing::warn!(%address, "a node of the cluster asks for a listener that is not here: configure all nodes alike");
        return;
    };
    let caller = Caller { neighbour: true, ..Caller::new(address.ip()) };
    front.http2(Stream::Tls(stream), BytesMut::new(), caller, front.shared.held.nothing(), stopping).await;
}
