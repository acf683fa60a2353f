//! The sockets that are listened on, and passing them to another process.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
};

use super::words::{Given, Told};
use crate::errors::ServeError;

/// Sockets that are passed on at once: the kernel takes 253.
const MOST: usize = 250;
/// The longest line that comes with sockets, in bytes.
const MOST_LINE_BYTES: usize = 64 * 1024;

/// What a proxy listens on. Kept open as long as it may have to be given to somebody, or to be accepted on again.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// With the addresses as they were told, in the order of the listeners.
    pub listeners: Vec<(SocketAddr, TcpListener)>,
    pub metrics: Option<(SocketAddr, TcpListener)>,
    pub control: Option<UnixListener>,
}

impl Sockets {
    /// The line that tells of them, and themselves in that order.
    ///
    /// Errors: there are too many, or the system does not say where one listens.
    pub fn told(&self) -> io::Result<(Told, Vec<BorrowedFd<'_>>)> {
        let given = |(told, socket): &(SocketAddr, TcpListener)| Ok(Given { told: *told, at: socket.local_addr()? });
        let listeners: Vec<Given> = self.listeners.iter().map(given).collect::<io::Result<_>>()?;
        let metrics = self.metrics.as_ref().map(given).transpose()?;
        let mut fds: Vec<BorrowedFd<'_>> = self.listeners.iter().map(|(_, socket)| socket.as_fd()).collect();
        fds.extend(self.metrics.iter().map(|(_, socket)| socket.as_fd()));
        fds.extend(self.control.iter().map(AsFd::as_fd));
        if fds.len() > MOST {
            return Err(io::Error::other(format!("more than {MOST} listeners cannot be handed over: start it again")));
        }
        Ok((Told::HandingOver { listeners, metrics, control: self.control.is_some() }, fds))
    }

    /// Puts together again what came with a line.
    ///
    /// Errors: what came is not what the line says.
    pub fn of(
        listeners: &[Given],
        metrics: Option<Given>,
        control: bool,
        fds: Vec<OwnedFd>,
    ) -> Result<Sockets, &'static str> {
        let mut fds = fds.into_iter();
        let mut next = |given: &Given| {
            let socket = TcpListener::from(fds.next().ok_or("fewer sockets came than were announced")?);
            let listens = rustix::net::sockopt::socket_acceptconn(&socket).is_ok_and(|listens| listens);
            let at = socket.local_addr().map_err(|_| "a socket came that is not for TCP")?;
            if !listens || at != given.at {
                return Err("a socket came that does not listen where it was said to");
            }
            socket.set_nonblocking(true).map_err(|_| "a socket came that cannot be used")?;
            Ok((given.told, socket))
        };
        let listeners = listeners.iter().map(&mut next).collect::<Result<_, _>>()?;
        let metrics = metrics.as_ref().map(&mut next).transpose()?;
        let control = match control {
            true => Some(UnixListener::from(fds.next().ok_or("the control socket did not come")?)),
            false => None,
        };
        if fds.next().is_some() {
            return Err("more sockets came than were announced");
        }
        Ok(Sockets { listeners, metrics, control })
    }

    /// The listener for an address, if there is one: it is taken out. What is left when all are taken is nobody's.
    pub fn take(&mut self, told: SocketAddr) -> Option<TcpListener> {
        let index = self.listeners.iter().position(|(known, _)| *known == told)?;
        Some(self.listeners.swap_remove(index).1)
    }
}

/// Connections that wait to be accepted; the system has a limit of its own (`net.core.somaxconn`), which is usually less.
const LONGEST_QUEUE: i32 = 65_535;

fn cannot(address: SocketAddr) -> impl Fn(io::Error) -> ServeError {
    move |cause| match cause.kind() {
        io::ErrorKind::AddrInUse => ServeError::InUse(address),
        io::ErrorKind::PermissionDenied => ServeError::NotPermitted(address),
        _ => ServeError::Listen { address, cause },
    }
}

/// Takes an address as [`listen`] does, and no connection: whoever connects is refused as before. It is let go of with what is
/// returned.
pub(crate) fn reserve(address: SocketAddr) -> Result<OwnedFd, ServeError> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let reserved = socket.and_then(|socket| {
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &address)?;
        Ok(socket)
    });
    reserved.map_err(|cause| cannot(address)(cause.into()))
}

/// Listens, or says why it cannot.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listener = TcpListener::bind(address).map_err(cannot(address))?;
    // Listening once more changes the length of the queue alone. The standard library's holds 128: in a burst the system would
    // drop what comes beyond, and those clients try again a second later.
    rustix::net::listen(&listener, LONGEST_QUEUE)
        .map_err(|cause| ServeError::Listen { address, cause: cause.into() })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Sends the start of a line with sockets; how many bytes of it were taken.
///
/// Errors: what the system says; `WouldBlock` where there is no room yet.
pub(super) fn send_with(stream: impl AsFd, line: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(fds.len()))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("there is no room for the sockets"));
    }
    Ok(sendmsg(stream, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Reads one line, and the sockets that come with it. No byte behind the line is read, since nothing is said behind it
/// until it is answered.
///
/// Errors: what the system says, which is also that no time is left; the line is too long or ends too early.
pub(super) fn line_with(stream: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut line, mut fds) = (Vec::new(), Vec::new());
    let mut bytes = vec![0; MOST_LINE_BYTES];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    while !line.ends_with(b"\n") {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                fds.extend(came);
            }
        }
        line.extend_from_slice(bytes.get(..got).unwrap_or_default());
        if got == 0 || line.len() > MOST_LINE_BYTES {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection, or says too much"));
        }
    }
    Ok((line, fds))
}
