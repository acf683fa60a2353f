//! What origins are asked, counted; and what they say of the request's id, taken away.

use tinaja_http::message::RequestHead;

use super::Exchange;
use super::ask::{Reply, With};
use super::entry::Entry;
use super::request::Request;
use crate::failure::Failure;

impl Exchange {
    /// Sends a request with this head, as [`Exchange::ask_origin`] does.
    pub(super) async fn ask(
        &self,
        request: &Request,
        head: RequestHead,
        cached: bool,
        with: With<'_>,
        entry: &mut Entry,
    ) -> Result<Reply, Failure> {
        let fetches = self.shared.metrics.as_ref().map(|metrics| &metrics.fetches);
        let (began, _waiting) = (self.shared.clock.now(), fetches.map(|fetches| fetches.wait()));
        let mut reply = self.ask_origin(request, head, cached, with, entry).await;
        if let Some(fetches) = fetches {
            fetches.count(reply.as_ref().map(|reply| reply.head.status.as_u16()), self.shared.clock.since(began));
            if let Ok(reply) = &mut reply {
                reply.connection.received = Some(fetches.received.clone());
            }
        }
        if let (Some(name), Ok(reply)) = (self.shared.ids.header(), &mut reply) {
            // The id that an origin repeats is this request's alone: if it were stored, a hit would tell it to others.
            reply.head.headers.remove(name);
        }
        reply
    }
}
