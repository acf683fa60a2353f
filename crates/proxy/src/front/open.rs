//! A tunnel that is opened up: the client's TLS ends here, and what it asks for inside is answered like anything else.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::BytesMut;
use rustls::AlertDescription;
use tokio::io::BufReader;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::connect::Connect;
use super::inside::Inside;
use super::{Caller, Front};
use crate::failure::Failure;
use crate::held::{Kept, TLS_BYTES};
use crate::intercept::{Interceptor, OnReject};
use crate::stream::{Ahead, Stream};
use crate::tls::READ_BYTES;

/// Alerts with which clients say that they do not take a certificate (RFC 8446 6.2). Which one is the library's choice.
const REJECTIONS: [AlertDescription; 6] = [
    AlertDescription::UnknownCA,
    AlertDescription::BadCertificate,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
];

impl Front {
    /// Ends the client's TLS here, as the server that it wants, and answers what it asks for.
    pub(super) async fn open(
        self: &Arc<Self>,
        connect: &Connect<'_>,
        stream: Ahead,
        interceptor: &Interceptor,
        (on_reject, name): (OnReject, String),
        stopping: &watch::Receiver<bool>,
    ) {
        let (shared, client) = (&self.shared, connect.client());
        let Some(mut kept) = shared.held.keep(TLS_BYTES) else {
            self.count_tunnel(|tunnels| tunnels.failed.inc());
            return self.log_connect(connect, &Failure::TooManyConnections);
        };
        let config = match interceptor.leaf(&name, shared.clock.wall()) {
            Ok((config, is_made)) => {
                self.count_tunnel(|tunnels| tunnels.made.inc_by(u64::from(is_made)));
                config
            }
            Err(why) => {
                self.count_tunnel(|tunnels| tunnels.failed.inc());
                return self.log_connect(connect, &Failure::Internal(why.to_string()));
            }
        };
        let buffered = BufReader::with_capacity(READ_BYTES, stream);
        let shaken = Box::pin(TlsAcceptor::from(config).accept(buffered));
        // Others may need what it holds, and it is not a request yet.
        let Ok(shaken) = kept.idle(shared.clock.timeout(shared.limits.head, shaken)).await else { return };
        let failed = match shaken {
            Ok(Ok(stream)) => {
                let (_, tls) = stream.get_ref();
                let is_http2 = tls.alpn_protocol() == Some(b"h2");
                // Two readers of one hello must have read the same.
                let is_same = tls.server_name().is_none_or(|told| told.eq_ignore_ascii_case(&name));
                if is_same {
                    self.count_tunnel(|tunnels| tunnels.intercepted.inc());
                    let inside = Some(Arc::new(Inside { name, port: connect.destination.port }));
                    let caller = Caller { inside, intercepted: true, ..connect.caller.clone() };
                    return self.inside((Stream::Inside(Box::new(stream)), kept), caller, is_http2, stopping).await;
                }
                "its hello can be read in two ways".to_owned()
            }
            Ok(Err(error)) => match rejection(&error) {
                Some(alert) => {
                    self.count_tunnel(|tunnels| tunnels.rejected.inc());
                    if on_reject == OnReject::Tunnel {
                        shared.rejections.add(client, &name, shared.clock.now());
                    }
                    let why = format!(
                        "it does not accept the certificate of this proxy's CA ({alert:?}); have it trust the CA, or leave its \
                         tunnels alone by a rule"
                    );
                    return self.log_connect(connect, &Failure::ClientTls(why));
                }
                None => error.to_string(),
            },
            Err(_) => "it took too long".to_owned(),
        };
        self.count_tunnel(|tunnels| tunnels.failed.inc());
        self.log_connect(connect, &Failure::ClientTls(failed));
    }

    /// What is asked for in a tunnel, to its end. A future of its own kind, or requests in tunnels in requests would have no end.
    fn inside<'a>(
        self: &'a Arc<Self>,
        (stream, kept): (Stream, Kept),
        caller: Caller,
        is_http2: bool,
        stopping: &'a watch::Receiver<bool>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        match is_http2 {
            true => Box::pin(self.http2(stream, BytesMut::new(), caller, kept, stopping)),
            false => Box::pin(self.requests(stream, caller, kept, false, stopping)),
        }
    }
}

/// The alert with which a client said that it does not take the certificate, if that is why its TLS failed.
fn rejection(error: &std::io::Error) -> Option<AlertDescription> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match inner {
        rustls::Error::AlertReceived(alert) if REJECTIONS.contains(alert) => Some(*alert),
        _ => None,
    }
}
