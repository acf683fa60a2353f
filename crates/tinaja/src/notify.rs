//! Telling a service manager how it goes: sd_notify's protocol, a datagram to the socket that `NOTIFY_SOCKET` names.
//!
//! Where there is no such variable, nobody is told. What cannot be told is logged and changes nothing.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Clients can connect; `status` is a line for people.
pub fn ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={}", one_line(status)));
}

/// It stops: nobody new is served.
pub fn stopping(status: &str) {
    tell(&format!("STOPPING=1\nSTATUS={}", one_line(status)));
}

/// Another process goes on with the service, and is the one to watch from now on.
pub fn handed_over(process: u32) {
    tell(&format!("MAINPID={process}"));
}

/// Sends lines of `NAME=VALUE`, as sd_notify(3) has them.
pub fn tell(lines: &str) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, lines) {
        tracing::warn!(%error, "cannot notify the service manager (NOTIFY_SOCKET)");
    }
}

fn send(socket: &OsStr, lines: &str) -> io::Result<()> {
    // An `@` stands for the zero byte of a name that is no file's.
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(socket)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither an absolute path nor a name after @")),
    };
    UnixDatagram::unbound()?.send_to_addr(lines.as_bytes(), &address).map(drop)
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_by_path_and_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("tinaja-notify-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        send(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
        for (socket, expected) in [(by_path, "READY=1"), (by_name, "STOPPING=1")] {
            let mut told = [0; 64];
            let length = socket.recv(&mut told).unwrap();
            assert_eq!(&told[..length], expected.as_bytes());
        }
        assert_eq!(one_line("a\nMAINPID=1"), "a MAINPID=1");
    }

    #[test]
    fn nobody_there_is_an_error() {
        for socket in ["/nowhere/at/all", "relative", ""] {
            assert!(send(OsStr::new(socket), "READY=1").is_err(), "{socket}");
        }
    }
}
