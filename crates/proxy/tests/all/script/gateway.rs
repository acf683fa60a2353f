//! Lets the clients of a case, who write HTTP/1.1, speak HTTP/2 to the proxy: one connection for each of theirs, on
//! which their requests are streams, one after the other.
//!
//! What a well-formed head means is said in HTTP/2, its body in DATA as it comes. A malformed head goes as it stands,
//! field by field, byte by byte (`gateway_raw`). A stream that the proxy resets for being malformed counts as a 400.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{Method, Response};
use tinaja_http::body::BodyWalk;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::asked::Asked;
use super::gateway_raw;

/// Room for what is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Listens until it is dropped.
pub struct Gateway {
    pub address: SocketAddr,
    _runtime: Runtime,
}

impl Gateway {
    pub fn start(proxy: SocketAddr) -> Gateway {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A connection that ends in an error is closed, which is what the case sees.
                tokio::spawn(async move { serve(client, proxy).await });
            }
        });
        Gateway { address, _runtime: runtime }
    }
}

async fn serve(client: TcpStream, proxy: SocketAddr) -> Option<()> {
    let _ = client.set_nodelay(true);
    let (send, connection) = h2::client::handshake(TcpStream::connect(proxy).await.ok()?).await.ok()?;
    let mut driver = tokio::spawn(async move {
        let _ = connection.await;
    });
    let mut session = Session { client, waiting: BytesMut::new(), send };
    while let Some(asked) = session.next_head(&mut driver).await {
        let answered = match asked.request() {
            Some(request) => session.answer(request, asked.walk()).await,
            None => session.answer_raw(asked, proxy).await,
        };
        if answered.is_none() {
            break;
        }
    }
    driver.abort();
    None
}

struct Session {
    client: TcpStream,
    /// Read from the client, and not yet passed on.
    waiting: BytesMut,
    send: SendRequest<Bytes>,
}

/// What the proxy says first to a request.
enum Said {
    Interim(Response<()>),
    Final(Response<RecvStream>),
}

impl Session {
    /// The next head; nothing once the client or the proxy has ended its connection.
    async fn next_head(&mut self, driver: &mut JoinHandle<()>) -> Option<Asked> {
        loop {
            if let Some(asked) = Asked::take(&mut self.waiting) {
                return Some(asked);
            }
            self.waiting.reserve(READ_BYTES);
            let read = tokio::select! {
                read = self.client.read_buf(&mut self.waiting) => read.ok()?,
                _ = &mut *driver => return None,
            };
            (read > 0).then_some(())?;
        }
    }

    /// A request that could not be said otherwise; the connection ends behind its answer.
    async fn answer_raw(&mut self, asked: Asked, proxy: SocketAddr) -> Option<()> {
        // What follows at once is its content.
        let more = self.client.read_buf(&mut self.waiting);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(20), more).await;
        let content = self.waiting.split().freeze();
        let answer = tokio::task::spawn_blocking(move || gateway_raw::answer(proxy, &asked, &content)).await.ok()?;
        self.client.write_all(&answer).await.ok()?;
        None
    }

    /// Sends a request on a stream and writes the answer as HTTP/1.1 has it. A client that leaves resets the stream.
    async fn answer(&mut self, request: http::Request<()>, mut walk: BodyWalk) -> Option<()> {
        let head_only = request.method() == Method::HEAD;
        let mut ready = self.send.clone().ready().await.ok()?;
        let (mut answer, mut content) = ready.send_request(request, walk.done()).ok()?;
        let mut sending = !walk.done();
        let answer = loop {
            sending = sending && self.pass_content(&mut walk, &mut content)?;
            let said = tokio::select! {
                said = says(&mut answer) => said,
                () = self.hears(sending) => continue_if(self.read_more(sending).await)?,
            };
            match said {
                None => {}
                Some(Ok(Said::Interim(interim))) => self.client.write_all(&head(&interim, Length::None)).await.ok()?,
                Some(Ok(Said::Final(answer))) => break answer,
                Some(Err(error)) => {
                    if error.reason() == Some(Reason::PROTOCOL_ERROR) {
                        self.client.write_all(gateway_raw::RESET).await.ok()?;
                    }
                    return None;
                }
            }
        };
        let bodiless = head_only || matches!(answer.status().as_u16(), 204 | 304);
        let chunked = !bodiless && !answer.headers().contains_key("content-length");
        let (parts, mut body) = answer.into_parts();
        let length = if chunked { Length::Chunked } else { Length::AsItIs };
        self.client.write_all(&head(&Response::from_parts(parts, ()), length)).await.ok()?;
        loop {
            sending = sending && self.pass_content(&mut walk, &mut content)?;
            let piece = tokio::select! {
                piece = body.data() => match piece {
                    Some(piece) => piece.ok()?,
                    None => break,
                },
                () = self.hears(sending) => {
                    self.read_more(sending).await?;
                    continue;
                }
            };
            body.flow_control().release_capacity(piece.len()).ok()?;
            if !chunked {
                self.client.write_all(&piece).await.ok()?;
            } else if !piece.is_empty() {
                let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
                self.client.write_all(&framed).await.ok()?;
            }
        }
        if chunked {
            self.client.write_all(b"0\r\n\r\n").await.ok()?;
        }
        // What nobody takes any more ends with its request.
        while !walk.done() {
            if walk.next_data(&mut self.waiting).ok()?.is_none() && !walk.done() {
                self.read_more(true).await?;
            }
        }
        Some(())
    }

    /// Sends on what there is of a request's content. Whether there is more to come.
    fn pass_content(&mut self, walk: &mut BodyWalk, content: &mut SendStream<Bytes>) -> Option<bool> {
        let mut pieces = BytesMut::new();
        while let Some(piece) = walk.next_data(&mut self.waiting).ok()? {
            pieces.extend_from_slice(&piece);
        }
        if walk.done() || !pieces.is_empty() {
            // A stream that was reset takes no more, and its answer tells.
            let _ = content.send_data(pieces.freeze(), walk.done());
        }
        Some(!walk.done())
    }

    /// Returns when there is content to be read, or, where none is expected, when the client has closed its connection;
    /// further requests wait.
    async fn hears(&self, sending: bool) {
        if sending {
            let _ = self.client.readable().await;
            return;
        }
        let mut byte = [0];
        while self.client.peek(&mut byte).await.is_ok_and(|count| count > 0) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Reads content that has come; nothing if the client has gone.
    async fn read_more(&mut self, sending: bool) -> Option<()> {
        // Small pieces would be small frames, of which a client may not send many.
        self.waiting.reserve(READ_BYTES);
        (sending && self.client.read_buf(&mut self.waiting).await.ok()? > 0).then_some(())
    }
}

fn continue_if(read: Option<()>) -> Option<Option<Result<Said, h2::Error>>> {
    read.map(|()| None)
}

async fn says(answer: &mut ResponseFuture) -> Option<Result<Said, h2::Error>> {
    let said = std::future::poll_fn(|cx| {
        if let std::task::Poll::Ready(Some(interim)) = answer.poll_informational(cx) {
            return std::task::Poll::Ready(interim.map(Said::Interim));
        }
        std::future::Future::poll(std::pin::Pin::new(&mut *answer), cx).map(|answer| answer.map(Said::Final))
    });
    Some(said.await)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    /// Of an interim answer.
    None,
    AsItIs,
    Chunked,
}

fn head(answer: &Response<()>, length: Length) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} Status\r\n", answer.status().as_u16()).into_bytes();
    for (name, value) in answer.headers() {
        head.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    if length == Length::Chunked {
        head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}
