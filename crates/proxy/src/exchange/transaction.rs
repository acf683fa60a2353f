//! One request on its way to an answer: what was asked, who gets the answer, and what the log will say of it.

use tinaja_http::message::BadField;

use super::entry::Entry;
use super::request::Request;
use crate::client::{Client, Left};
use crate::failure::Failure;

/// One request, its client, and what is noted of it on the way.
pub(super) struct Transaction<'a> {
    pub request: &'a Request,
    pub client: &'a mut Client,
    pub entry: &'a mut Entry,
}

impl Transaction<'_> {
    /// The same for a request that was changed on the way.
    pub fn of<'b>(&'b mut self, request: &'b Request) -> Transaction<'b> {
        Transaction { request, client: self.client, entry: self.entry }
    }
}

/// Why a request has no answer, or only the beginning of one.
#[derive(Debug)]
pub(super) enum Ended {
    /// The proxy says why.
    Failed(Failure),
    /// Nobody is there to be told.
    Left,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        match failure {
            Failure::ClientLeft => Ended::Left,
            failure => Ended::Failed(failure),
        }
    }
}

impl From<Left> for Ended {
    fn from(_: Left) -> Ended {
        Ended::Left
    }
}

impl From<BadField> for Ended {
    /// A field of ours that cannot stand in a head.
    fn from(error: BadField) -> Ended {
        Ended::Failed(Failure::Internal(error.to_string()))
    }
}
