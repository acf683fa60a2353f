//! Why a cluster is not joined.

use std::net::SocketAddr;
use std::path::PathBuf;

/// See the module. The text says which file or address, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// A file cannot be read, or holds something else.
    #[error("cluster: {path} holds no {wanted} in PEM: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was to be in it.
        wanted: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// The node's certificate is not what its peers will accept.
    #[error(
        "cluster: the certificate in {certificate} does not go with the key and with the authority in {ca}: {cause}"
    )]
    Certificate {
        /// The certificate's file.
        certificate: PathBuf,
        /// The authority's.
        ca: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// The address is not this machine's, or another program has it.
    #[error("cluster: cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: String,
    },
    /// Memory that is too little for anything, or more than can be had.
    #[error("cluster: {0}")]
    Memory(String),
    /// Memory cannot be lent in this way.
    #[error("cluster: one_sided = {ways}: {why}")]
    Ucx {
        /// The ways that were asked for.
        ways: String,
        /// What is wrong with them.
        why: String,
    },
    /// The system has no threads or sockets left.
    #[error("cluster: {0}")]
    System(String),
}
