//! A tunnel that was asked for, by a CONNECT, or by a connection to port 443 that the kernel sent here.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tinaja_http::authority::Authority;
use tinaja_http::judge::Judged;

use super::Caller;
use crate::config::Listener;
use crate::held::Kept;
use crate::ids::RequestId;
use crate::origin::Destination;
use crate::rules::Asked;

/// One of them.
pub(super) struct Connect<'a> {
    pub caller: &'a Caller,
    pub began: Instant,
    pub judged: &'a Judged,
    pub id: &'a RequestId,
    pub authority: &'a Authority,
    pub destination: Destination,
    pub listener: Arc<Listener>,
    /// What the tunnel takes, until it is run.
    pub kept: Mutex<Option<Kept>>,
}

impl Connect<'_> {
    pub fn client(&self) -> IpAddr {
        self.caller.address
    }

    pub fn asked(&self) -> Asked<'_> {
        Asked { client: self.client(), method: &self.judged.method, port: self.destination.port, upgrade: None }
    }
}
