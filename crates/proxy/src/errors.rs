//! Why a proxy does not start, or does not take over from another.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tinaja_store::OpenError;

use crate::intercept::BadAuthority;
use crate::tls::BadCertificate;

/// Why a proxy could not start. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No address to listen on.
    #[error("no address to listen on; give one, as in 127.0.0.1:3128")]
    NoAddress,
    /// Two listeners want the same connections.
    #[error("{0} and {1} overlap: a connection could belong to either listener; give one of them another port")]
    Overlap(SocketAddr, SocketAddr),
    /// A transparent proxy is to be told who its clients are, by a setting of this name.
    #[error(
        "{0} is a transparent proxy, whose connections come from clients themselves, so that nobody could say who they are; remove {1} there"
    )]
    ToldWhereDiverted(SocketAddr, &'static str),
    /// Another program listens there.
    #[error("{0} is in use by another program; stop that one, or listen on another port (--listen)")]
    InUse(SocketAddr),
    /// The system does not let this user listen there.
    #[error("no permission to listen on {0}; ports below 1024 need a privilege, so choose a higher one (--listen)")]
    NotPermitted(SocketAddr),
    /// The system does not let this user take connections to others' addresses.
    #[error(
        "cannot take connections by tproxy on {address}: {cause}; that needs CAP_NET_ADMIN: AmbientCapabilities=CAP_NET_ADMIN and \
         CapabilityBoundingSet=CAP_NET_ADMIN in the systemd unit, or by = \"redirect\", which needs no privilege"
    )]
    Transparent {
        /// The listener's address.
        address: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// Something else is wrong with the address.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// The access log cannot be opened.
    #[error("cannot open the access log {path}: {cause}; choose another file, or turn it off (--access-log off)")]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The authorities that origins' certificates are checked against cannot be read, or there are none for an origin
    /// with TLS.
    #[error(
        "cannot read the certificates of trusted authorities: {0}; check SSL_CERT_FILE and SSL_CERT_DIR, or unset \
         them and install the package ca-certificates"
    )]
    Certificates(String),
    /// A certificate of a listener is of no use.
    #[error("{address} cannot speak TLS: {cause}")]
    Certificate {
        /// The listener's address.
        address: SocketAddr,
        /// What is wrong with which file.
        cause: BadCertificate,
    },
    /// The CA that tunnels are to be intercepted with is of no use.
    #[error("cannot intercept: {0}")]
    Authority(#[from] BadAuthority),
    /// Another process's work could not be taken over, after this one had begun to serve.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// What a route speaks TLS to its origins with is of no use.
    #[error("the route {route} cannot speak TLS to its origins: {cause}")]
    OriginTls {
        /// The route's host and path, `*` for any.
        route: String,
        /// What is wrong with which file.
        cause: BadCertificate,
    },
    /// Threads or signal handlers could not be set up.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// Why nothing was taken over. The old process, where there is one, serves on.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The cache is not in a directory.
    #[error("cannot take over: the first cache must be a directory, because the control socket is there")]
    NoDirectory,
    /// Nobody serves.
    #[error("no server runs on the cache in {0}: start without --take-over, or name the cache of another server")]
    NoServer(PathBuf),
    /// The old process cannot be reached, or is somebody else's.
    #[error("cannot ask the server on the cache in {path} to hand over: {cause}")]
    Unreachable {
        /// The cache's directory.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The old process does not hand over.
    #[error("the running server refuses to hand over: {0}")]
    Refused(String),
    /// This process was told to stop meanwhile.
    #[error("told to stop before it had the cache")]
    Stopped,
    /// The old process says what makes no sense.
    #[error("the running server's version cannot hand over to this one ({0}): stop it, and start this one")]
    OtherVersion(String),
    /// The conversation cannot go on.
    #[error("cannot talk to the running server: {0}")]
    Talk(#[from] io::Error),
    /// The cache, which the old process has left, cannot be opened.
    #[error("cannot open the cache that was handed over: {0}")]
    Cache(Box<OpenError>),
}
