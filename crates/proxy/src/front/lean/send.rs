//! A plain hit on its way.

use bytes::Bytes;

use super::head::Head;
use super::{Answered, MaybePlain, Plain, To};
use crate::boxed::boxed;
use crate::exchange::Rest;
use crate::failure::Failure;

impl MaybePlain<'_> {
    /// Sends what was found, or as much of it as can be had; nothing has been sent where that is nothing.
    pub(super) async fn send(&self, mut to: To<'_>, plain: Plain) -> Option<Answered> {
        let Plain { mut found, first, coding, now } = plain;
        let source = found.hit.source.into();
        let mut answer = Answered { status: 0, source, body_bytes: 0, content_type: None, keep: self.keep, why: None };
        let head = self.head(&to, &found, &mut answer, now)?;
        let patience = self.shared.patience();
        let mut sent = match (&mut to, head) {
            (To::H1(gate), Head::H1(head)) => {
                let bytes = first.len() as u64;
                let sent = patience.send(gate.stream(), (head, first, b""), false).await;
                answer.body_bytes = if sent { bytes } else { 0 };
                sent
            }
            (To::H2(h2), Head::H2(head)) => h2.begin_with(head, first).await.is_ok(),
            _ => false,
        };
        let length = found.hit.body.len();
        let mut rest: Option<Box<_>> = None;
        while sent && !self.is_head() {
            let piece = match &mut rest {
                // Rare, so it is boxed: each hit would hold the room for it.
                Some(rest) => boxed(|| self.go_on(&mut to, rest)).await,
                None => match found.hit.body.next(self.piece_bytes(&to, &found.hit.body)).await {
                    Ok(piece) => Ok(piece),
                    Err(error) => {
                        let at = to.sent_bytes(&answer);
                        rest = Some(Box::new(self.exchange.rest(&found, at, length, error)));
                        continue;
                    }
                },
            };
            match piece {
                Ok(Some(piece)) => match &mut to {
                    To::H1(gate) => {
                        let bytes = piece.len() as u64;
                        sent = patience.send(gate.stream(), (Vec::new(), piece, b""), false).await;
                        answer.body_bytes += if sent { bytes } else { 0 };
                    }
                    To::H2(h2) => sent = h2.piece(piece).await.is_ok(),
                },
                Ok(None) => break,
                Err(why) => (answer.why, sent) = (why, false),
            }
        }
        if let Some(coding) = coding.filter(|_| sent) {
            self.exchange.count_form(coding);
        }
        answer.body_bytes = to.sent_bytes(&answer);
        match to {
            To::H1(gate) => {
                answer.keep &= sent && patience.send(gate.stream(), Default::default(), true).await;
            }
            // What is not whole is reset once nobody has the stream any more.
            To::H2(h2) => answer.keep &= sent && h2.end().await.is_ok(),
        }
        Some(answer)
    }

    /// The next piece of the rest, which comes from the origin.
    ///
    /// Errors: why there is none; nothing where the client has left. Nobody else gets any of it, so its fetch ends then.
    async fn go_on(&self, to: &mut To<'_>, rest: &mut Rest) -> Result<Option<Bytes>, Option<Box<Failure>>> {
        tokio::select! {
            biased;
            piece = self.exchange.more(self.request, rest) => piece.map_err(|failure| Some(Box::new(failure))),
            () = to.gone() => Err(None),
        }
    }
}

impl To<'_> {
    /// Returns when the client has left.
    async fn gone(&mut self) {
        match self {
            To::H1(gate) => gate.gone().await,
            To::H2(h2) => h2.gone().await,
        }
    }

    /// Bytes of body that were sent so far.
    fn sent_bytes(&self, answer: &Answered) -> u64 {
        match self {
            To::H1(_) => answer.body_bytes,
            To::H2(h2) => h2.sent_bytes(),
        }
    }
}
