//! What the front answers by itself, and the lines of the access log for it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_http::judge::{Judged, Target};
use tinaja_http::message::Usual;
use tinaja_logs::{CacheResult, Record};
use tokio::io::AsyncWriteExt;

use super::lean::Answered;
use super::{Caller, Front};
use crate::access::record;
use crate::admin::{BanError, PurgeError, asked_by, purge_name};
use crate::client::Gate;
use crate::exchange::{Request, Ticket, record_of};
use crate::failure::Failure;
use crate::ids::RequestId;
use crate::metrics::Source;
use crate::page::{raw_answer_with, raw_text};
use crate::rules::Purging;

/// How long a client that was refused may still send, so that it can read the answer: closing a connection with
/// bytes unread would take the answer back.
pub(super) const LINGER: Duration = Duration::from_secs(1);

impl Front {
    /// Forgets what is stored under a URL, all variants, and says whether there was something.
    pub(super) async fn purge(&self, mut gate: Gate, judged: &Judged, head: &Bytes, ticket: &Ticket) {
        let (status, text) = self.purged(judged, head, ticket).await;
        let mut answer = raw_text(status, &text);
        self.tell(&ticket.id, &mut answer);
        let sent = self.send(&mut gate, &answer).await;
        self.log_purge(judged, ticket, status, text.len());
        self.linger(gate, sent).await;
    }

    /// The same, without telling the client: status and text.
    pub(super) async fn purged(&self, judged: &Judged, head: &Bytes, ticket: &Ticket) -> (u16, String) {
        let fields = head.get(judged.fields.clone()).unwrap_or_default();
        let is_ban = Purging::of(&judged.method) == Some(Purging::Ban);
        match asked_by(is_ban, fields, |is_prefix| ticket.subjects(is_prefix)) {
            Ok(Some(by)) => match by.carry_out(&self.shared.bans, self.shared.nodes.as_ref(), &self.shared.clock).await
            {
                Ok(()) => (200, "Purged.\n".to_owned()),
                Err(error @ BanError::Away) => (503, format!("Not purged: {error}.\n")),
                Err(error) => {
                    // Where it could not be written, and why not, is the operator's business.
                    tracing::error!(id = %ticket.id, "a purge failed: {error}");
                    let is_here = matches!(error, BanError::Elsewhere(_));
                    let so_far =
                        if is_here { "It is purged here, and perhaps not on other nodes." } else { "Not purged." };
                    (500, format!("{so_far} Request id: {}\n", ticket.id))
                }
            },
            Ok(None) => self.forgotten(ticket).await,
            Err(why) => (400, format!("{why}\n")),
        }
    }

    async fn forgotten(&self, ticket: &Ticket) -> (u16, String) {
        let (mut forgotten, shared) = (Ok(false), &self.shared);
        for name in std::iter::once(ticket.name.clone()).chain(ticket.own_name_at(&ticket.path)) {
            // One that fails keeps nobody from removing the other.
            forgotten =
                match (forgotten, purge_name(&self.exchange.store, (&shared.bans, &shared.families), &name).await) {
                    (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                    (Ok(before), Ok(there)) => Ok(before || there),
                };
        }
        match forgotten {
            Ok(true) => (200, "Purged.\n".to_owned()),
            Ok(false) => (404, "It was not in the cache.\n".to_owned()),
            Err(error) => {
                // Which disk or node failed is the operator's business.
                tracing::error!(id = %ticket.id, "a purge failed: {error}");
                let rest = matches!(error, PurgeError::Elsewhere(_));
                let so_far = if rest { "It is forgotten here, and perhaps not on other nodes." } else { "Not purged." };
                (500, format!("{so_far} Request id: {}\n", ticket.id))
            }
        }
    }

    pub(super) fn log_purge(&self, judged: &Judged, ticket: &Ticket, status: u16, length: usize) {
        let (method, url, bytes) = (judged.method.clone(), ticket.url(), length as u64);
        let record = record(ticket.client, ticket.began, &self.shared.clock);
        self.shared.count(&CacheResult::None, Source::Proxy, status, bytes, ticket.began);
        let id = Some(ticket.id.to_string());
        let result = CacheResult::None;
        self.shared.log.write(Record { id, method, url, status, bytes, result, ..record });
    }

    /// A line for a connection over HTTP/2 that was closed because its client sent more than it may of something.
    pub(super) fn log_flood(&self, client: IpAddr, began: Instant, what: &str) {
        let (method, url) = ("-".to_owned(), format!("error:{what}"));
        self.shared.log.write(Record {
            method,
            url,
            result: CacheResult::None,
            ..record(client, began, &self.shared.clock)
        });
    }

    /// Answers with a page and closes the connection, gently.
    pub(super) async fn refuse(
        &self,
        mut gate: Gate,
        caller: &Caller,
        began: Instant,
        judged: Option<(&Judged, &RequestId)>,
        failure: &Failure,
    ) {
        let with_body = judged.is_none_or(|(judged, _)| judged.method != "HEAD");
        let told = if caller.intercepted { failure.reason_inside() } else { failure.reason() };
        let mut answer = raw_answer_with(failure, told, judged.map(|(_, id)| id), with_body);
        if let Some((_, id)) = judged {
            self.tell(id, &mut answer);
        }
        let sent = self.send(&mut gate, &answer).await;
        self.log_failure(caller, began, judged, failure);
        self.linger(gate, sent).await;
    }

    /// Adds a request's id to a whole answer, if clients are told.
    fn tell(&self, id: &RequestId, answer: &mut Vec<u8>) {
        let end_of_line = answer.windows(2).position(|two| two == b"\r\n");
        if let (Some(name), Some(at)) = (self.shared.ids.header(), end_of_line) {
            let field = format!("\r\n{}: {id}", Usual(name));
            answer.splice(at..at, field.into_bytes());
        }
    }

    /// Sends a whole answer, the connection's last. Whether the client took it.
    async fn send(&self, gate: &mut Gate, answer: &[u8]) -> bool {
        let stream = gate.stream();
        let written = self.shared.clock.timeout(self.shared.limits.client_stall, async {
            stream.write_all(answer).await?;
            stream.flush().await?;
            stream.shutdown().await
        });
        matches!(written.await, Ok(Ok(())))
    }

    pub(super) fn log_hit(&self, request: &Request, answer: &Answered) {
        let ticket = &request.ticket;
        self.shared.count(&CacheResult::Hit, answer.source, answer.status, answer.body_bytes, ticket.began);
        if let Some(failure) = &answer.why {
            self.shared.metrics.as_ref().inspect(|metrics| metrics.broken_answers.inc());
            tracing::error_span!("request", id = %ticket.id).in_scope(|| self.shared.explain(failure));
        }
        if !self.shared.log.is_on() {
            return;
        }
        let media_type = |value: &str| value.split(';').next().unwrap_or_default().trim().to_owned();
        self.shared.log.write(Record {
            id: Some(ticket.id.to_string()),
            method: request.method().to_string(),
            url: ticket.url(),
            status: answer.status,
            bytes: answer.body_bytes,
            result: CacheResult::Hit,
            content_type: answer.content_type.as_deref().filter(|_| !ticket.intercepted).map(media_type),
            why: answer.why.as_ref().map(ToString::to_string),
            ..record_of(request, &self.shared.clock)
        });
    }

    pub(super) fn log_failure(
        &self,
        caller: &Caller,
        began: Instant,
        judged: Option<(&Judged, &RequestId)>,
        failure: &Failure,
    ) {
        let (method, url) = match (judged, failure) {
            // Of what was in a tunnel the log shows what it shows of a tunnel.
            (Some((judged, _)), _) if caller.intercepted => (judged.method.clone(), caller.tunnel(judged)),
            (Some((judged, _)), _) => {
                let host = judged.authority.as_ref().map(ToString::to_string).unwrap_or_default();
                let url = match &judged.target {
                    Target::Tunnel => host,
                    Target::Origin(path) => path.clone(),
                    Target::Absolute { tls, path } => format!("{}://{host}{path}", if *tls { "https" } else { "http" }),
                    Target::Asterisk => "*".into(),
                };
                (judged.method.clone(), url)
            }
            (None, Failure::Refused(refusal)) => ("-".into(), format!("error:{}", refusal.name())),
            (None, Failure::NotDiverted) => ("-".into(), "error:made-to-the-listener".into()),
            (None, Failure::NoDestination(_)) => ("-".into(), "error:no-destination".into()),
            (None, _) => ("-".into(), "error:too-many-connections".into()),
        };
        let result = if failure.is_denial() { CacheResult::Denied } else { CacheResult::None };
        let status = failure.status();
        self.shared.count(&result, Source::Proxy, status, 0, began);
        let id = judged.map(|(_, id)| id.to_string());
        match &id {
            Some(id) => tracing::error_span!("request", id = %id).in_scope(|| self.shared.explain(failure)),
            None => self.shared.explain(failure),
        }
        let why = Some(failure.to_string());
        let record = caller.record(began, &self.shared.clock);
        self.shared.log.write(Record { id, method, url, status, result, why, ..record });
    }

    /// Takes what the client still sends, if it took its answer, so that it can read that.
    pub(super) async fn linger(&self, mut gate: Gate, sent: bool) {
        if sent {
            let rest = async {
                while matches!(gate.read_more().await, Ok(1..)) {
                    gate.drop_waiting(usize::MAX);
                }
            };
            let _ = self.shared.clock.timeout(LINGER, rest).await;
        }
    }
}
