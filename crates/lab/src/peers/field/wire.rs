//! A connection in the clear or by TLS, read and written without waiting.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::exchange::HOST;

/// See the module.
pub struct Wire {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Wire {
    /// Connect, and shake hands if it is by TLS; both wait for so long at most. Errors: the server takes no connection, or no TLS.
    pub fn connect(server: SocketAddrV4, tls: Option<&Arc<ClientConfig>>, patience: Duration) -> Result<Wire, Error> {
        let mut stream = TcpStream::connect_timeout(&server.into(), patience)?;
        stream.set_nodelay(true)?;
        let mut secured = None;
        if let Some(config) = tls {
            stream.set_read_timeout(Some(patience))?;
            let name = ServerName::try_from(HOST).map_err(Error::other)?;
            let mut tls = ClientConnection::new(config.clone(), name).map_err(Error::other)?;
            while tls.is_handshaking() {
                tls.complete_io(&mut stream)?;
            }
            secured = Some(Box::new(tls));
        }
        stream.set_nonblocking(true)?;
        Ok(Wire { stream, tls: secured })
    }

    /// Whether a read that did not fill its buffer has taken all that has come: under TLS there may be more.
    pub fn is_dry(&self) -> bool {
        self.tls.is_none()
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let Some(tls) = &mut self.tls else { return self.stream.read(buffer) };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            if tls.read_tls(&mut self.stream)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(Error::other)?;
            while tls.wants_write() {
                tls.write_tls(&mut self.stream)?;
            }
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let Some(tls) = &mut self.tls else { return self.stream.write(bytes) };
        let taken = tls.writer().write(bytes)?;
        while tls.wants_write() {
            tls.write_tls(&mut self.stream)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
