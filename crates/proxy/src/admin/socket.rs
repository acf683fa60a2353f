//! Where a running server is asked: a Unix socket beside the cache, for its own user only.
//!
//! A user who may write the cache may also ask its server. The file has mode 0600, and the other side's user is checked too.
//! The cache's lock tells whether a socket that is there was left behind.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket's name in the cache's directory.
pub const NAME: &str = "tinaja.sock";
/// The system takes 107 bytes of path and no more.
const MOST_PATH_BYTES: usize = 100;

/// A socket whose file is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    pub listener: UnixListener,
    path: PathBuf,
    /// Whether the file is this process's to remove.
    own: bool,
}

impl Socket {
    /// Makes the socket in `dir`. One that is there already was left by a process that was killed: whoever calls this
    /// holds the lock of the cache in that directory.
    ///
    /// Errors: what the system says; something there that is no socket is left alone.
    pub fn make(dir: &Path) -> io::Result<Socket> {
        let path = dir.join(NAME);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(&path)?,
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket")),
            Err(_) => {}
        }
        let near = Near::new(dir)?;
        let listener = UnixListener::bind(near.path())?;
        // Until this is done others may connect; they are turned away by their user.
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Socket { listener, path, own: true })
    }

    /// The socket in `dir` that another process has made and passed on; its file is the other's until [`Socket::own`].
    ///
    /// Errors: what the system says.
    pub fn passed_on(listener: UnixListener, dir: &Path) -> io::Result<Socket> {
        listener.set_nonblocking(true)?;
        Ok(Socket { listener, path: dir.join(NAME), own: false })
    }

    /// Whether the file is this process's to remove, or that of another one, which listens on the same socket.
    pub fn own(&mut self, own: bool) {
        self.own = own;
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Left behind, it is removed by the next server, and answered as stale until then.
        let _ = self.own.then(|| fs::remove_file(&self.path));
    }
}

/// Connects to the server of the cache in `dir`; nothing if none runs there.
///
/// Errors: what the system says, such as that the server is another user's.
pub fn connect(dir: &Path) -> io::Result<Option<UnixStream>> {
    let connected = Near::new(dir).and_then(|near| UnixStream::connect(near.path()));
    match connected {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            // Refused: nobody listens any more.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// A path to the socket that is short enough, whatever the directory's is.
struct Near {
    path: PathBuf,
    /// Keeps the short path valid.
    _dir: Option<File>,
}

impl Near {
    fn new(dir: &Path) -> io::Result<Near> {
        let path = dir.join(NAME);
        if path.as_os_str().len() <= MOST_PATH_BYTES {
            return Ok(Near { path, _dir: None });
        }
        let open = File::open(dir)?;
        Ok(Near { path: Path::new("/proc/self/fd").join(open.as_raw_fd().to_string()).join(NAME), _dir: Some(open) })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_stale_sockets_and_strangers() {
        let temp = tempfile::tempdir().unwrap();
        for dir in [temp.path().join("short"), temp.path().join("x".repeat(200))] {
            fs::create_dir(&dir).unwrap();
            assert!(connect(&dir).unwrap().is_none(), "none there");
            let socket = Socket::make(&dir).unwrap();
            let mode = fs::metadata(dir.join(NAME)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            assert!(connect(&dir).unwrap().is_some());
            // As a killed process leaves it: the file, and nobody behind it.
            let Socket { listener, path, .. } = &socket;
            let (_other, path) = (listener.try_clone().unwrap(), path.clone());
            let stale = path.with_file_name("kept");
            fs::hard_link(&path, &stale).unwrap();
            drop((_other, socket));
            fs::rename(&stale, &path).unwrap();
            assert!(connect(&dir).unwrap().is_none(), "stale");
            drop(Socket::make(&dir).unwrap());
            assert!(!path.exists());
            fs::write(&path, "mine").unwrap();
            assert!(Socket::make(&dir).unwrap_err().to_string().contains("no socket"));
            assert_eq!(fs::read(&path).unwrap(), b"mine");
        }
    }
}
