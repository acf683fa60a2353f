//! An origin's answer, as far as its head.

use std::net::IpAddr;
use std::time::SystemTime;

use tinaja_http::message::ResponseHead;

use super::keep::Received;
use crate::bans::{Stamp, Tags};
use crate::origin::Connection;

/// An origin's answer, whose content is still to be read.
pub(super) struct Reply {
    pub head: ResponseHead,
    pub connection: Connection,
    pub asked: SystemTime,
    pub answered: SystemTime,
    /// Which bans had been made when it was asked for.
    pub stamp: Stamp,
    /// How many URLs had been removed when it was asked for.
    pub removals: u64,
    /// What its origin calls it.
    pub tags: Tags,
    /// The origin that it came from, though a neighbour brought it.
    pub from: IpAddr,
    /// The request's content has not all been sent.
    pub sending: bool,
}

impl Reply {
    pub fn received(&self) -> Received<'_> {
        let Reply { head, asked, answered, stamp, removals, tags, from, .. } = self;
        Received { head, asked: *asked, answered: *answered, stamp: *stamp, removals: *removals, tags, from: *from }
    }
}
