//! The load over HTTP/2 by TLS: one thread, some connections, many requests at once on each, every byte compared.

use std::io::Error;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Request};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::connections::Wanted;
use super::exchange::HOST;
use crate::error::LabError;
use crate::peers::body;
use crate::peers::client::{next_turn, wrong};
use crate::peers::load::Tally;
use crate::peers::origin::{LIKE, OBJECT, TURN, path};

/// Content that a server may send ahead on a stream and on a connection: what Chromium gives.
const STREAM_WINDOW_BYTES: u32 = 6 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 15 << 20;
/// A server that takes longer for all of a run hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ask for all of these over so many connections with so many requests at once on each. Errors: no HTTP/2 by TLS, an answer that is wrong or
/// none, or it takes more than a minute.
pub fn over_http2(
    server: SocketAddrV4,
    tls: &Arc<ClientConfig>,
    wanted: Vec<Wanted>,
    (connections, streams): (usize, usize),
) -> Result<Tally, LabError> {
    let failed = |why: Error| LabError::failed("asking a server over HTTP/2", why);
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (source, tally) = (Arc::new(Mutex::new(wanted.into_iter())), Arc::new(Mutex::new(Tally::default())));
    let work = async {
        let mut senders = Vec::new();
        for _ in 0..connections {
            senders.push(connect(server, tls).await?);
        }
        let began = Instant::now();
        let mut clients = JoinSet::new();
        for sender in senders.iter().flat_map(|sender| std::iter::repeat_n(sender, streams)) {
            clients.spawn(client(sender.clone(), source.clone(), tally.clone()));
        }
        while let Some(ended) = clients.join_next().await {
            ended.map_err(Error::other)??;
        }
        tally.lock().span = began.elapsed();
        Ok(())
    };
    let done = runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await });
    done.map_err(|_| failed(Error::other("it took more than a minute")))?.map_err(failed)?;
    let tally = std::mem::take(&mut *tally.lock());
    Ok(tally)
}

async fn connect(server: SocketAddrV4, tls: &Arc<ClientConfig>) -> Result<SendRequest<Bytes>, Error> {
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(HOST).map_err(Error::other)?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(Error::other("it speaks no HTTP/2 to clients"));
    }
    let mut builder = Builder::new();
    builder.initial_window_size(STREAM_WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let (sender, connection) = builder.handshake(stream).await.map_err(Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}

/// One request after the other, until all are made.
async fn client(
    mut sender: SendRequest<Bytes>,
    source: Arc<Mutex<std::vec::IntoIter<Wanted>>>,
    tally: Arc<Mutex<Tally>>,
) -> Result<(), Error> {
    loop {
        let Some(wanted) = source.lock().next() else { return Ok(()) };
        let (began, turn, Wanted { object, bytes }) = (Instant::now(), next_turn(), wanted);
        let request = Request::get(format!("https://{HOST}{}", path(object)))
            .header("user-agent", "tinaja-lab")
            .header("accept", "*/*")
            .header(LIKE, format!("0/{bytes}/1"))
            .header(TURN, turn.to_string());
        let request = request.body(()).map_err(Error::other)?;
        sender = sender.ready().await.map_err(Error::other)?;
        let (answer, _) = sender.send_request(request, true).map_err(Error::other)?;
        let (head, mut content) = answer.await.map_err(Error::other)?.into_parts();
        let field = |name: &str| text(&head.headers, name);
        if head.status != 200 || u64::from_str_radix(field(OBJECT), 16) != Ok(object) {
            return Err(wrong(format!("{object:016x} was answered with {} and {}", head.status, field(OBJECT))));
        }
        let is_hit = field(TURN) != turn.to_string();
        let mut at = 0;
        while let Some(piece) = content.data().await {
            let piece = piece.map_err(Error::other)?;
            content.flow_control().release_capacity(piece.len()).map_err(Error::other)?;
            if !body::is_right(object, at, &piece) {
                return Err(wrong(format!("{object:016x} has other bytes behind byte {at}")));
            }
            at += piece.len();
        }
        if at as u64 != bytes {
            return Err(wrong(format!("{object:016x} has {at} bytes instead of {bytes}")));
        }
        let mut tally = tally.lock();
        tally.bytes += bytes;
        tally.hit_bytes += if is_hit { bytes } else { 0 };
        if is_hit { &mut tally.hit_times } else { &mut tally.miss_times }.push(began.elapsed());
    }
}

fn text<'a>(fields: &'a HeaderMap, name: &str) -> &'a str {
    fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
