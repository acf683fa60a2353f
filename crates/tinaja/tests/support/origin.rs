//! An origin made by hand, for answers that no decent server gives: slow, endless, broken, lying.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::body::write_body;

/// How an origin answers: it is given the request's target and header lines, and writes the response. The connection is
/// closed after.
pub type Answer = dyn Fn(&str, &str, &mut TcpStream) -> io::Result<()> + Send + Sync;

/// A TCP server on loopback, one thread a connection. Dropped, it stops listening.
pub struct Origin {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Origin {
    pub fn start(answer: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Origin::start_with_heads(move |target, _, stream| answer(target, stream))
    }

    /// An origin that sees the header lines of requests, too.
    pub fn start_with_heads(
        answer: impl Fn(&str, &str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let answer: Arc<Answer> = Arc::new(answer);
        let acceptor = {
            let (requests, stop) = (requests.clone(), stop.clone());
            std::thread::spawn(move || accept(&listener, &answer, &requests, &stop))
        };
        Origin { address, requests, stop, acceptor: Some(acceptor) }
    }

    /// An origin of cacheable bodies that are a function of the path: `/LEN/ANYTHING` is LEN bytes.
    pub fn of_patterns() -> Self {
        Origin::start(|target, stream| {
            let len = target.split('/').nth(1).and_then(|len| len.parse().ok()).unwrap_or(0);
            write!(stream, "HTTP/1.1 200 OK\r\nCache-Control: max-age=86400\r\n")?;
            write!(stream, "Content-Length: {len}\r\nConnection: close\r\n\r\n")?;
            write_body(stream, target, len)
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The absolute URL of `path`, which starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The targets asked for so far, in order.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Stop listening: connections are refused from now on.
    pub fn stop(&mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            self.stop.store(true, Ordering::SeqCst);
            // Wakes the acceptor; if it fails, the acceptor is gone already.
            let _ = TcpStream::connect(self.address);
            acceptor.join().unwrap();
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(listener: &TcpListener, answer: &Arc<Answer>, requests: &Arc<Mutex<Vec<String>>>, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::SeqCst) {
            // Closed it would listen on, in whatever process another test is just starting.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
            return;
        }
        let Ok(stream) = stream else { continue };
        let (answer, requests) = (answer.clone(), requests.clone());
        // A client that leaves in the middle is no failure of the origin.
        std::thread::spawn(move || serve(stream, &*answer, &requests).ok());
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, requests: &Mutex<Vec<String>>) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request_line = String::new();
    reader.read_line(&mut request_line)?;
    let Some(target) = request_line.split(' ').nth(1) else {
        return Ok(());
    };
    let mut lines = String::new();
    while reader.read_line(&mut lines)? > 2 {}
    requests.lock().unwrap().push(target.to_owned());
    answer(target, &lines, &mut stream)
}
