//! A client of HTTP/2 that asks for what it is told and reads what comes.
#![allow(dead_code)]

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request, StatusCode};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// One connection.
pub struct Streams {
    send: SendRequest<Bytes>,
    /// Ends with the connection.
    pub driver: JoinHandle<Result<(), h2::Error>>,
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// Why it is not whole, if it is not.
    pub broken: Option<h2::Error>,
    /// Statuses of interim answers.
    pub interim: Vec<StatusCode>,
}

impl Answer {
    pub fn field(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn is_hit(&self) -> bool {
        self.field("cache-status").starts_with("Tinaja; hit")
    }
}

impl Streams {
    /// With prior knowledge (RFC 9113 3.3).
    pub async fn connect(address: SocketAddr) -> Streams {
        let stream = TcpStream::connect(address).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        Streams { send, driver: tokio::spawn(connection) }
    }

    /// A request, whose content comes in pieces if there is any.
    pub async fn ask(
        &self,
        method: &str,
        uri: &str,
        fields: &[(&str, &str)],
        pieces: &[&[u8]],
    ) -> Result<Answer, h2::Error> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut send = self.send.clone().ready().await?;
        let (mut answer, mut content) = send.send_request(request.body(()).unwrap(), pieces.is_empty())?;
        for (number, piece) in pieces.iter().enumerate() {
            content.send_data(Bytes::copy_from_slice(piece), number + 1 == pieces.len())?;
        }
        let mut interim = Vec::new();
        let (parts, mut content) = std::future::poll_fn(|cx| {
            while let std::task::Poll::Ready(Some(Ok(head))) = answer.poll_informational(cx) {
                interim.push(head.status());
            }
            std::future::Future::poll(std::pin::Pin::new(&mut answer), cx)
        })
        .await?
        .into_parts();
        let (mut body, mut broken) = (Vec::new(), None);
        while let Some(piece) = content.data().await {
            match piece {
                Ok(piece) => {
                    content.flow_control().release_capacity(piece.len()).unwrap();
                    body.extend_from_slice(&piece);
                }
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        Ok(Answer { status: parts.status, headers: parts.headers, body, broken, interim })
    }

    pub async fn get(&self, uri: &str) -> Answer {
        self.ask("GET", uri, &[], &[]).await.unwrap()
    }
}
