//! Requests and answers that pass by the cache, in bounded memory.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};

use super::ask::{Reply, With, send_on};
use super::entry::Entry;
use super::ticket::Request;
use super::{Ended, Exchange, headers};
use crate::client::{BadContent, Client};
use crate::stored::Found;

impl Exchange {
    /// Passes a request on as it is, and its answer back. `found` is what is stored for it and did not do.
    pub(super) async fn pass(
        self: &Arc<Self>,
        request: &Request,
        client: &mut Client,
        entry: &mut Entry,
        found: Option<Found>,
    ) -> Result<(), Ended> {
        let cached = matches!(*request.method(), Method::GET | Method::HEAD) && !request.directives.no_store;
        let reply = self.ask(request, request.head.clone(), cached, With::Content(client), entry).await?;
        self.invalidate(request, &reply).await;
        if let Some(found) = found {
            self.note_head(request, found, &reply).await?;
        }
        let worth_it = cached && self.is_worth_it(request, &reply.received());
        self.pipe(request, client, entry, reply).await?;
        if worth_it {
            self.run_errand(request);
        }
        Ok(())
    }

    /// Gives an origin's answer to the client, while the rest of the request goes the other way.
    pub(super) async fn pipe(
        &self,
        request: &Request,
        client: &mut Client,
        entry: &mut Entry,
        mut reply: Reply,
    ) -> Result<(), Ended> {
        let mut head = reply.head.clone();
        headers::to_client(&self.shared, &mut head, None, entry)?;
        entry.note(&head);
        let bodiless = request.method() == Method::HEAD
            || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        // What has come with the head goes out with it.
        let first = tokio::select! {
            biased;
            piece = reply.connection.read() => piece?,
            () = std::future::ready(()) => None,
        };
        client.begin(&head, first.unwrap_or_default()).await?;
        while !bodiless && !reply.connection.is_done() {
            match self.next_piece(client, &mut reply).await? {
                Some(piece) => client.piece(piece).await?,
                None => break,
            }
        }
        if reply.sending {
            // The origin answered before it had all of the request, and what is left of it is nobody's.
            reply.connection.give_up_content();
        }
        client.end().await?;
        self.origins.release(reply.connection).await;
        Ok(())
    }

    /// The answer's next piece. Meanwhile more of the request is sent, or the client is seen to leave.
    async fn next_piece(&self, client: &mut Client, reply: &mut Reply) -> Result<Option<Bytes>, Ended> {
        loop {
            tokio::select! {
                piece = reply.connection.read() => return piece.map_err(Ended::from),
                piece = hear(client, reply.sending) => {
                    reply.sending = send_on(&mut reply.connection, piece).await?;
                }
            }
        }
    }
}

/// What the client does next: it sends more of its request, or, once that is whole, leaves.
async fn hear(client: &mut Client, sending: bool) -> Result<Option<Bytes>, BadContent> {
    if sending {
        return client.read_content().await;
    }
    client.gone().await;
    Err(BadContent::Left)
}
