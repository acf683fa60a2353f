//! A connection to an origin for one request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use pingora_core::connectors::ConnectorOptions;
use pingora_core::connectors::http::Connector;
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_error::{Error, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};
use tinaja_http::answer::judge_answer;

use super::{Destination, handshake, peer};
use crate::config::Limits;
use crate::failure::Failure;

/// Connections to origins, those that wait for their next request among them.
pub(crate) struct Origins {
    connector: Connector,
    limits: Limits,
    /// Sets connections apart that are used once.
    single: AtomicU64,
}

/// A connection with one request on it.
pub(crate) struct Connection {
    session: HttpSession,
    peer: HttpPeer,
    pub address: SocketAddr,
    /// It had an earlier request, and may have been closed behind that.
    pub reused: bool,
    /// Something of an answer has come.
    pub has_answered: bool,
    broken: bool,
    /// Reading the answer has failed, and does so from then on.
    failed: Option<Failure>,
    single: bool,
}

impl Origins {
    /// Keeps at most `kept` connections for later.
    pub fn new(kept: usize, limits: Limits) -> Origins {
        Origins { connector: Connector::new(Some(ConnectorOptions::new(kept))), limits, single: AtomicU64::new(1) }
    }

    /// Connects to the first of `addresses` that accepts. `single` takes a new connection that is closed afterwards:
    /// for requests that must not be sent twice, as one on a kept connection might have to be.
    ///
    /// Errors: what the last address failed with, or an earlier one that did answer, but not to TLS.
    pub async fn connect(
        &self,
        destination: &Destination,
        addresses: &[SocketAddr],
        single: bool,
    ) -> Result<Connection, Failure> {
        let mut failure = Failure::Internal("no address is left to try".into());
        for address in addresses {
            let mut peer = peer(destination, *address, &self.limits);
            if single {
                peer.group_key = self.single.fetch_add(1, Ordering::Relaxed);
            }
            match self.connector.get_http_session(&peer).await {
                Ok((mut session, reused)) => {
                    session.set_read_timeout(Some(self.limits.origin_stall));
                    session.set_write_timeout(Some(self.limits.origin_stall));
                    let address = *address;
                    return Ok(Connection {
                        session,
                        peer,
                        address,
                        reused,
                        has_answered: false,
                        broken: false,
                        failed: None,
                        single,
                    });
                }
                Err(error) if !matches!(failure, Failure::Tls { .. }) => {
                    failure = connect_failure(&destination.host, *address, &error);
                }
                Err(_) => {}
            }
        }
        Err(failure)
    }

    /// Gives a connection back, to be used again if its answer was whole and nothing else came.
    pub async fn release(&self, connection: Connection) {
        let Connection { mut session, peer, broken, single, .. } = connection;
        if broken || single {
            session.shutdown().await;
            return;
        }
        if let HttpSession::H1(h1) = &mut session {
            h1.respect_keepalive();
        }
        self.connector.release_http_session(session, &peer, Some(super::peer::KEEP_IDLE)).await;
    }
}

impl Connection {
    /// Sends a request's head.
    pub async fn send(&mut self, head: RequestHeader) -> Result<(), Failure> {
        self.session.write_request_header(Box::new(head)).await.map_err(|error| failure_of(&error))
    }

    /// Sends more of a request's content. An origin that takes no more may have answered already: whether it has is
    /// seen when that is read, and the connection is of no further use.
    pub async fn send_content(&mut self, piece: Bytes) -> bool {
        let sent = self.session.write_request_body(piece, false).await.is_ok();
        self.broken |= !sent;
        sent
    }

    /// All of a request has been sent.
    pub async fn end_content(&mut self) -> bool {
        let sent = self.session.finish_request_body().await.is_ok();
        self.broken |= !sent;
        sent
    }

    /// No more of the request's content is sent, though there is more.
    pub fn give_up_content(&mut self) {
        self.broken = true;
    }

    /// The next head: of an interim answer, or of the final one. Dropped before it is ready, it has taken nothing.
    pub async fn read_head(&mut self) -> Result<ResponseHeader, Failure> {
        let read = self.session.read_response_header().await;
        // After an error as well: what came is not known, and may have been part of an answer.
        let nothing = read.as_ref().is_err_and(|error| {
            let closed = matches!(error.etype(), ErrorType::ConnectionClosed | ErrorType::ReadError);
            closed && error.to_string().contains("bytes already read: 0")
        });
        self.has_answered |= !nothing;
        read.map_err(|error| failure_of(&error))?;
        let Some(head) = self.session.response_header() else {
            return Err(Failure::Origin("its answer has no head".into()));
        };
        let head = head.clone();
        if let HttpSession::H1(h1) = &self.session {
            judge_answer(&h1.get_headers_raw_bytes()).map_err(|bad| Failure::Origin(bad.to_string()))?;
        }
        Ok(head)
    }

    /// The next piece of the answer's content; `None` at its end, which is where the answer's frame says it is. An error
    /// comes again with each further call.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(failure) = &self.failed {
                return Err(failure.clone());
            }
            if self.session.response_done() {
                return Ok(None);
            }
            match self.session.read_response_body().await {
                Ok(Some(piece)) if piece.is_empty() => {}
                Ok(piece) => return Ok(piece),
                Err(error) => {
                    self.broken = true;
                    self.failed = Some(failure_of(&error));
                }
            }
        }
    }

    /// Whether all of the answer has been read.
    pub fn is_done(&mut self) -> bool {
        self.failed.is_none() && self.session.response_done()
    }
}

/// Why a connection to `host` at `address` failed.
fn connect_failure(host: &str, address: SocketAddr, error: &Error) -> Failure {
    match error.etype() {
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout => Failure::ConnectTimeout { address },
        ErrorType::ConnectRefused => Failure::Connect { address, error: "it was refused".into() },
        ErrorType::ConnectNoRoute => Failure::Connect { address, error: "there is no route to it".into() },
        ErrorType::TLSHandshakeFailure => {
            Failure::Tls { host: host.to_owned(), address, error: handshake::reason(error) }
        }
        other => Failure::Connect { address, error: other.as_str().to_owned() },
    }
}

/// Why an exchange on a connection failed.
fn failure_of(error: &Error) -> Failure {
    match error.etype() {
        ErrorType::ReadTimedout | ErrorType::WriteTimedout => Failure::OriginTimeout,
        ErrorType::InvalidHTTPHeader => Failure::Origin("its answer is no valid HTTP".into()),
        ErrorType::ConnectionClosed => Failure::Origin("it closed the connection without an answer".into()),
        other => Failure::Origin(other.as_str().into()),
    }
}
