//! Lets the clients of a case, who write HTTP/1.1, speak HTTP/2 to the proxy: one connection for each of theirs.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use http::{Method, Request, Response};
use tinaja_http::body::BodyWalk;
use tinaja_http::head::{HeadEnd, head_end};
use tinaja_http::judge::{Target, judge};
use tinaja_http::lines::header_map;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Fields that HTTP/2 has not, or says otherwise.
const LEFT_OUT: [&str; 6] = ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

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

async fn serve(mut client: TcpStream, proxy: SocketAddr) -> Option<()> {
    let _ = client.set_nodelay(true);
    let (mut send, connection) = h2::client::handshake(TcpStream::connect(proxy).await.ok()?).await.ok()?;
    let driver = tokio::spawn(connection);
    let mut waiting = BytesMut::new();
    loop {
        let Some((request, content)) = request(&mut client, &mut waiting).await else {
            driver.abort();
            return None;
        };
        let head_only = request.method() == Method::HEAD;
        let answered = answer(&mut send, &mut client, request, content, head_only);
        if answered.await.is_none() {
            driver.abort();
            return None;
        }
    }
}

/// The next request, whole.
async fn request(client: &mut TcpStream, waiting: &mut BytesMut) -> Option<(Request<()>, Bytes)> {
    let head = loop {
        if let HeadEnd::At { start, end } = head_end(waiting, 0).ok()? {
            break waiting.split_to(end).freeze().slice(start..);
        }
        (client.read_buf(waiting).await.ok()? > 0).then_some(())?;
    };
    let judged = judge(&head).ok()?;
    let host = judged.authority.as_ref()?.to_string();
    let uri = match &judged.target {
        Target::Origin(path) => format!("http://{host}{path}"),
        Target::Absolute { tls, path } => format!("{}://{host}{path}", if *tls { "https" } else { "http" }),
        Target::Tunnel | Target::Asterisk => return None,
    };
    let mut request = Request::builder().method(judged.method.as_str()).uri(uri).body(()).ok()?;
    *request.headers_mut() = header_map(&head.slice(judged.fields.clone()), |_| true)?;
    for name in LEFT_OUT {
        request.headers_mut().remove(name);
    }
    let (mut walk, mut content) = (BodyWalk::new(judged.framing), BytesMut::new());
    while !walk.done() {
        match walk.next_data(waiting).ok()? {
            Some(piece) => content.extend_from_slice(&piece),
            None if walk.done() => {}
            None => (client.read_buf(waiting).await.ok()? > 0).then_some(())?,
        }
    }
    Some((request, content.freeze()))
}

/// Sends a request on a stream and writes the answer as HTTP/1.1 has it. A client that leaves resets the stream.
async fn answer(
    send: &mut SendRequest<Bytes>,
    client: &mut TcpStream,
    request: Request<()>,
    content: Bytes,
    head_only: bool,
) -> Option<()> {
    let mut ready = send.clone().ready().await.ok()?;
    let (answer, mut stream) = ready.send_request(request, content.is_empty()).ok()?;
    if !content.is_empty() {
        stream.send_data(content, true).ok()?;
    }
    let answer = tokio::select! {
        answer = answer => answer.ok()?,
        () = left(client) => return None,
    };
    let bodiless = head_only || matches!(answer.status().as_u16(), 204 | 304);
    let chunked = !bodiless && !answer.headers().contains_key("content-length");
    client.write_all(&head(&answer, chunked)).await.ok()?;
    let mut body = answer.into_body();
    while let Some(piece) = tokio::select! {
        piece = body.data() => piece,
        () = left(client) => return None,
    } {
        let piece = piece.ok()?;
        body.flow_control().release_capacity(piece.len()).ok()?;
        if chunked && !piece.is_empty() {
            client.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await.ok()?;
        }
        client.write_all(&piece).await.ok()?;
        if chunked && !piece.is_empty() {
            client.write_all(b"\r\n").await.ok()?;
        }
    }
    if chunked {
        client.write_all(b"0\r\n\r\n").await.ok()?;
    }
    Some(())
}

fn head<B>(answer: &Response<B>, chunked: bool) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} Status\r\n", answer.status().as_u16()).into_bytes();
    for (name, value) in answer.headers() {
        head.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    if chunked {
        head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Returns when the client has closed its connection; further requests wait.
async fn left(client: &TcpStream) {
    let mut byte = [0];
    while client.peek(&mut byte).await.is_ok_and(|count| count > 0) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
