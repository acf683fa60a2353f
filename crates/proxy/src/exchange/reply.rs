//! An origin's answer, as far as its head.

use std::net::IpAddr;
use std::time::SystemTime;

use tinaja_http::message::ResponseHead;

use super::keep::Received;
use crate::origin::Connection;

/// An origin's answer, whose content is still to be read.
pub(super) struct Reply {
    pub head: ResponseHead,
    pub connection: Connection,
    pub asked: SystemTime,
    pub answered: SystemTime,
    /// The origin that it came from, though a neighbour brought it.
    pub from: IpAddr,
    /// The request's content has not all been sent.
    pub sending: bool,
}

impl Reply {
    pub fn received(&self) -> Received<'_> {
        Received { head: &self.head, asked: self.asked, answered: self.answered, from: self.from }
    }
}
