//! A plain hit on its way.

use tokio::io::AsyncWriteExt;

use super::head::Head;
use super::{Answered, MaybePlain, Plain, To};
use crate::client::write_as_one;

impl MaybePlain<'_> {
    /// Sends what was found, or as much of it as can be had; nothing has been sent where that is nothing.
    pub(super) async fn send(&self, mut to: To<'_>, plain: Plain) -> Option<Answered> {
        let Plain { mut found, first, coding, now } = plain;
        let source = found.hit.source.into();
        let mut answer = Answered { status: 0, source, body_bytes: 0, content_type: None, keep: self.keep };
        let head = self.head(&to, &found, &mut answer, now)?;
        let patience = self.shared.patience();
        let mut sent = match (&mut to, head) {
            (To::H1(gate), Head::H1(head)) => {
                answer.body_bytes = first.len() as u64;
                let bytes = head.len() + first.len();
                let written = patience.holding(bytes, write_as_one(gate.stream(), head, first, b""));
                matches!(written.await, Some(Ok(())))
            }
            (To::H2(h2), Head::H2(head)) => h2.begin_with(head, first).await.is_ok(),
            _ => false,
        };
        let length = found.hit.body.len();
        let mut rest: Option<Box<_>> = None;
        while sent && !self.is_head() {
            let piece = match &mut rest {
                // Rare, so it is boxed: each hit would hold the room for it.
                Some(rest) => Box::pin(self.exchange.more(self.request, rest)).await.map_err(|error| error.to_string()),
                None => found.hit.body.next(self.shared.held.piece_bytes()).await.map_err(|error| error.to_string()),
            };
            match piece {
                Ok(Some(piece)) => match &mut to {
                    To::H1(gate) => {
                        let bytes = piece.len();
                        sent = matches!(patience.holding(bytes, gate.stream().write_all(&piece)).await, Some(Ok(())));
                        answer.body_bytes += if sent { bytes as u64 } else { 0 };
                    }
                    To::H2(h2) => sent = h2.piece(piece).await.is_ok(),
                },
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(id = %self.request.ticket.id, "an object was lost while it was sent: {error}");
                    let (head, at) = (&found.head, to.sent_bytes(&answer));
                    let length = length.filter(|_| rest.is_none());
                    rest = length.map(|length| Box::new(self.exchange.rest(head.clone(), at, length)));
                    sent = rest.is_some();
                }
            }
        }
        if let Some(coding) = coding.filter(|_| sent) {
            self.exchange.count_form(coding);
        }
        answer.body_bytes = to.sent_bytes(&answer);
        match to {
            To::H1(gate) => {
                answer.keep &= sent && matches!(patience.holding(0, gate.stream().flush()).await, Some(Ok(())));
            }
            // What is not whole is reset once nobody has the stream any more.
            To::H2(h2) => answer.keep &= sent && h2.end().await.is_ok(),
        }
        Some(answer)
    }
}

impl To<'_> {
    /// Bytes of body that were sent so far.
    fn sent_bytes(&self, answer: &Answered) -> u64 {
        match self {
            To::H1(_) => answer.body_bytes,
            To::H2(h2) => h2.sent_bytes(),
        }
    }
}
