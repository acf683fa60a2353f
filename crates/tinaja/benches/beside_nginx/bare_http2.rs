//! The least that a server can do with the libraries Tinaja uses for HTTP/2: `h2`, rustls and tokio. It looks at no request, keeps nothing, and gives
//! everybody the same answer, which is made once. Answers that are asked for together go out in one call, as Tinaja's do.
//!
//! What a Tinaja that was built in the same way takes more than this is its own. By a profile, as `scripts/release` builds, both would take less.

use std::io::{self, IoSlice, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The fields of Tinaja's answers: those of [`crate::origin`], and what Tinaja adds.
const FIELDS: [(&str, &str); 10] = [
    ("server", "bench"),
    ("date", "Tue, 01 Nov 2022 08:12:31 GMT"),
    ("content-type", "text/html"),
    ("last-modified", "Tue, 01 Nov 2022 08:12:31 GMT"),
    ("etag", "\"636f-2000\""),
    ("cache-control", "max-age=86400"),
    ("accept-ranges", "bytes"),
    ("age", "10"),
    ("via", "1.1 tinaja"),
    ("cache-status", "Tinaja; hit; ttl=86390"),
];

/// The most that a session holds back, as in Tinaja.
const HELD_BACK_BYTES: usize = 60 * 1024;

/// Serves there, on this thread, until the process is ended.
pub fn serve(address: SocketAddr, certificate: &Path, key: &Path, body_bytes: usize) -> ! {
    let mut fields = HeaderMap::new();
    for (name, value) in FIELDS {
        fields.insert(name, HeaderValue::from_static(value));
    }
    fields.insert("content-length", body_bytes.into());
    let answer = Answer { fields, body: vec![b'b'; body_bytes].into() };
    let acceptor = acceptor(certificate, key);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (acceptor, answer) = (acceptor.clone(), answer.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    connection(stream, answer).await;
                }
            });
        }
    })
}

fn acceptor(certificate: &Path, key: &Path) -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(certificate).unwrap().collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

#[derive(Clone)]
struct Answer {
    fields: HeaderMap,
    body: Bytes,
}

/// Answers everything that is asked on one connection.
async fn connection(stream: TlsStream<TcpStream>, answer: Answer) {
    let wire = Arc::new(Mutex::new(Wire { stream, unsent: 0 }));
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(100).max_send_buffer_size(32 * 1024);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(Shared(wire.clone())).await else { return };
    std::future::poll_fn(|cx| {
        loop {
            match connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((_, mut respond)))) => {
                    let mut head = Response::new(());
                    *head.headers_mut() = answer.fields.clone();
                    if let Ok(mut content) = respond.send_response(head, false) {
                        let _ = content.send_data(answer.body.clone(), true);
                    }
                }
                Poll::Ready(_) => return Poll::Ready(()),
                // All that has come is answered: now it goes out.
                Poll::Pending => match wire.lock().send(cx) {
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(())) | Poll::Pending => return Poll::Pending,
                },
            }
        }
    })
    .await;
}

/// What is sent is encrypted at once, and waits.
struct Wire {
    stream: TlsStream<TcpStream>,
    unsent: usize,
}

impl Wire {
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(cx);
        if sent.is_ready() {
            self.unsent = 0;
        }
        sent
    }
}

struct Shared(Arc<Mutex<Wire>>);

impl AsyncRead for Shared {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Shared {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wire = &mut *self.0.lock();
        if wire.unsent + slices.iter().map(|slice| slice.len()).sum::<usize>() > HELD_BACK_BYTES {
            std::task::ready!(wire.send(cx))?;
        }
        let written = wire.stream.get_mut().1.writer().write_vectored(slices)?;
        if written > 0 {
            wire.unsent += written;
            return Poll::Ready(Ok(written));
        }
        Pin::new(&mut wire.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_shutdown(cx)
    }
}
