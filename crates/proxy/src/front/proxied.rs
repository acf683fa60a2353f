//! Connections from a proxy before this one, which says who the client is.

use std::net::IpAddr;

use tokio::net::TcpStream;

use super::Front;
use crate::held::Kept;
use crate::proxy_protocol::{Told, told};

impl Front {
    /// Who the client of a connection is, as its header says; the proxy that has made it, where that speaks for itself. `None` if
    /// it is of no use: then that is counted and logged, unless nothing came at all.
    pub(super) async fn told(&self, stream: &mut TcpStream, peer: IpAddr, kept: &mut Kept) -> Option<IpAddr> {
        // As long as a head may take: the proxy sends it at once, and others may need what is held.
        let header = self.shared.clock.timeout(self.shared.limits.head, told(stream));
        let why = match kept.idle(header).await.ok()? {
            Ok(Ok(Told::Client(client))) => return Some(client.unwrap_or(peer)),
            Ok(Ok(Told::Nothing)) => return None,
            Ok(Err(why)) => why.to_string(),
            Err(_) => "it took too long".to_owned(),
        };
        self.shared.explain_untold(peer, &why);
        None
    }
}
