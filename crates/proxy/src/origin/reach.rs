//! How a route's origins are connected to: with whose certificates, and for how long.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use tinaja_clock::Clock;
use tokio_rustls::TlsConnector;

use super::{OriginTls, Trust, Upstream};
use crate::limits::Limits;
use crate::neighbours::Neighbours;
use crate::tls::{BadCertificate, certificates_in, check_at, key_in};

/// The name of HTTP/2 in TLS (RFC 9113 3.2).
pub(super) const ALPN_HTTP2: &[u8] = b"h2";

/// No route's mark, which is odd or 0.
const NEIGHBOURS: u64 = 2;
/// Connections to neighbours are kept for so long without a request.
const IDLE: Duration = Duration::from_secs(30);

/// What it takes to connect. Memory: with authorities of its own some KB for each of them.
pub(crate) struct Reach {
    /// Connections that were made by other files are not taken for those that are made by these.
    pub mark: u64,
    pub connect: Duration,
    pub stall: Duration,
    pub keep: usize,
    pub keep_for: Duration,
    /// Whether HTTP/2 is spoken: by TLS where the origin chooses it, else without asking.
    pub http2: bool,
    /// It leads to neighbours, who speak HTTP/2 by another name.
    pub is_neighbour: bool,
    pub clock: Clock,
    tls: Option<Arc<ClientConfig>>,
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reach").field("mark", &self.mark).finish_non_exhaustive()
    }
}

impl Reach {
    /// How clients of a forward proxy get to wherever they want.
    pub fn anywhere(trust: &Trust, limits: &Limits, keep: usize, clock: Clock) -> Reach {
        let keep_for = Duration::from_secs(4);
        let (connect, stall) = (limits.connect, limits.origin_stall);
        let (mark, tls) = (trust.mark(), trust.config());
        Reach { mark, connect, stall, keep, keep_for, http2: false, is_neighbour: false, clock, tls }
    }

    /// How other proxies of the same cache are reached.
    pub fn neighbours(neighbours: &Neighbours, limits: &Limits, clock: Clock) -> Reach {
        let (connect, stall, tls) = (neighbours.patience, limits.origin_stall, Some(neighbours.tls.clone()));
        Reach { mark: NEIGHBOURS, connect, stall, keep: 0, keep_for: IDLE, http2: true, is_neighbour: true, clock, tls }
    }

    /// Reads what a route's TLS needs.
    ///
    /// Errors: [`BadCertificate`].
    pub fn load(upstream: &Upstream, trust: &Trust, limits: &Limits, clock: &Clock) -> Result<Reach, BadCertificate> {
        let tls = &upstream.tls;
        let plain = *tls == OriginTls::default() && !upstream.http2;
        let own = (!plain).then(|| own(tls, trust, upstream.http2, clock)).transpose()?;
        Ok(Reach {
            mark: own.as_ref().map_or_else(|| trust.mark(), |(mark, _)| *mark),
            connect: upstream.connect.unwrap_or(limits.connect),
            stall: upstream.stall.unwrap_or(limits.origin_stall),
            keep: upstream.keep,
            keep_for: upstream.keep_for,
            http2: upstream.http2,
            is_neighbour: false,
            clock: clock.clone(),
            tls: own.map(|(_, config)| config).or_else(|| trust.config()),
        })
    }

    /// The same by HTTP/1.1.
    pub fn over_http1(reach: &Arc<Reach>) -> Arc<Reach> {
        if !reach.http2 {
            return reach.clone();
        }
        let tls = reach.tls.as_ref().map(|config| {
            let mut config = ClientConfig::clone(config);
            config.alpn_protocols.clear();
            Arc::new(config)
        });
        let Reach { mark, connect, stall, keep, keep_for, is_neighbour, ref clock, .. } = **reach;
        Arc::new(Reach { mark, connect, stall, keep, keep_for, http2: false, is_neighbour, clock: clock.clone(), tls })
    }

    /// Who shakes hands; nobody where the library lacks what it takes, which no system does.
    pub fn tls(&self) -> Option<TlsConnector> {
        self.tls.clone().map(TlsConnector::from)
    }
}

/// TLS as one route says, and a mark of the files' content.
fn own(tls: &OriginTls, trust: &Trust, http2: bool, clock: &Clock) -> Result<(u64, Arc<ClientConfig>), BadCertificate> {
    let mut mark = DefaultHasher::new();
    trust.mark().hash(&mut mark);
    let roots = match &tls.authority {
        Some(path) => Some(authorities_in(path, &mut mark)?),
        None => None,
    };
    let unfit = |path: &Path, error: rustls::Error| BadCertificate::Malformed {
        path: path.to_owned(),
        wanted: "certificate",
        cause: error.to_string(),
    };
    let builder = trust.builder(roots).map_err(|error| unfit(Path::new("TLS"), error))?;
    let mut config = match &tls.certificate {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let (path, chain) = (&files.certificate, certificates_in(&files.certificate)?);
            check_at(clock.wall(), path, &chain)?;
            let key = key_in(&files.key)?;
            (&chain, key.secret_der()).hash(&mut mark);
            let unfit = |error: rustls::Error| BadCertificate::Key {
                certificate: path.clone(),
                key: files.key.clone(),
                cause: error.to_string(),
            };
            builder.with_client_auth_cert(chain, key).map_err(unfit)?
        }
    };
    config.resumption = trust.resumption();
    if http2 {
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec(), b"http/1.1".to_vec()];
    }
    http2.hash(&mut mark);
    Ok((mark.finish() | 1, Arc::new(config)))
}

fn authorities_in(path: &Path, mark: &mut impl Hasher) -> Result<RootCertStore, BadCertificate> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_in(path)? {
        certificate.hash(mark);
        let malformed = |cause: rustls::Error| BadCertificate::Malformed {
            path: path.to_owned(),
            wanted: "authority's certificate",
            cause: cause.to_string(),
        };
        roots.add(certificate).map_err(malformed)?;
    }
    Ok(roots)
}
