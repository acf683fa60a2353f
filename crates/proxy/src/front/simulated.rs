//! Connections that are no sockets.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

use super::{Caller, Front};
use crate::network::Link;
use crate::stream::Stream;

impl Front {
    /// Answers one connection to its end, as [`Front::accept`] has a socket without TLS answered.
    pub async fn simulated(self: &Arc<Self>, link: Box<dyn Link>, from: IpAddr, stopping: &watch::Receiver<bool>) {
        let place = self.of_client(from).and_then(|of_client| Ok((of_client, self.place(false)?)));
        // Whoever is turned away finds the connection closed.
        let Ok((_of_client, (_place, kept))) = place else { return };
        self.requests(Stream::Simulated(link), Caller::new(from), kept, true, stopping).await;
    }
}
