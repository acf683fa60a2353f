//! An origin made by hand, over plain threads: it keeps what it was asked, and the test writes raw answers: slow, endless, broken,
//! lying.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::body::write_body;
use crate::client::{read_chunked, values};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// The request line and all header lines, with their ends.
    pub head: String,
    /// The method.
    pub method: String,
    /// The target, as it came.
    pub path: String,
    /// The content, whole.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a field, by its name in lower case.
    pub fn field(&self, name: &str) -> Option<String> {
        values(&self.head, name).next().map(str::to_owned)
    }
}

/// Writes the answer to a request, and says whether the connection stays open.
type Answer = dyn Fn(&Request, &mut TcpStream) -> bool + Send + Sync;

/// A server on loopback, one thread for each connection. Dropped, it stops listening.
pub struct Origin {
    /// Where it listens.
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stopping: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Origin {
    /// Serves each request by `answer`, which writes to the connection and says whether it stays open.
    pub fn start(answer: impl Fn(&Request, &mut TcpStream) -> bool + Send + Sync + 'static) -> Origin {
        Origin::on(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    /// The same where somebody listens already.
    pub fn on(
        listener: TcpListener,
        answer: impl Fn(&Request, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Origin {
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stopping = Arc::new(AtomicBool::new(false));
        let answer: Arc<Answer> = Arc::new(answer);
        let acceptor = {
            let (requests, stopping) = (requests.clone(), stopping.clone());
            thread::spawn(move || accept(&listener, &answer, &requests, &stopping))
        };
        Origin { address, requests, stopping, acceptor: Some(acceptor) }
    }

    /// Serves each request by `answer`, and closes the connection after it. A client that leaves in the middle is no failure.
    pub fn closing(answer: impl Fn(&Request, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Origin {
        Origin::closing_on(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    fn closing_on(
        listener: TcpListener,
        answer: impl Fn(&Request, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Origin {
        Origin::on(listener, move |request, stream| {
            let _ = answer(request, stream);
            false
        })
    }

    /// Answers every request with these header lines and this body, and a Content-Length.
    pub fn fixed(fields: &'static str, body: &'static str) -> Origin {
        Origin::start(move |request, stream| reply(stream, request, 200, fields, body.as_bytes()))
    }

    /// An origin of cacheable bodies that are a function of the path: `/LEN/ANYTHING` is LEN bytes.
    pub fn of_patterns() -> Origin {
        Origin::of_patterns_on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// The same where somebody listens already.
    pub fn of_patterns_on(listener: TcpListener) -> Origin {
        Origin::closing_on(listener, |request, stream| {
            let len = request.path.split('/').nth(1).and_then(|len| len.parse().ok()).unwrap_or(0);
            write!(stream, "HTTP/1.1 200 OK\r\nCache-Control: max-age=86400\r\n")?;
            write!(stream, "Content-Length: {len}\r\nConnection: close\r\n\r\n")?;
            write_body(stream, &request.path, len)
        })
    }

    /// The absolute URL of `path`, which starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many requests have come.
    pub fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The paths asked for so far, in order.
    pub fn paths(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|request| request.path.clone()).collect()
    }

    /// Stops listening: connections are refused from now on.
    pub fn stop(&mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            self.stopping.store(true, Ordering::SeqCst);
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

/// Writes an answer with a Content-Length; the body is left out for HEAD. The connection stays open.
pub fn reply(stream: &mut TcpStream, request: &Request, status: u16, fields: &str, body: &[u8]) -> bool {
    let head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    let written = stream.write_all(head.as_bytes()).is_ok();
    written && (request.method == "HEAD" || stream.write_all(body).is_ok())
}

fn accept(listener: &TcpListener, answer: &Arc<Answer>, requests: &Arc<Mutex<Vec<Request>>>, stopping: &AtomicBool) {
    for stream in listener.incoming() {
        if stopping.load(Ordering::SeqCst) {
            // Closed it would listen on, in whatever process another test is just starting.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
            return;
        }
        let Ok(stream) = stream else { continue };
        let (answer, requests) = (answer.clone(), requests.clone());
        thread::spawn(move || serve(stream, &*answer, &requests));
    }
}

fn serve(stream: TcpStream, answer: &Answer, seen: &Mutex<Vec<Request>>) {
    let mut writer = stream.try_clone().unwrap();
    // Else the body of each small answer waits 40 ms for the acknowledgement of its head.
    let _ = stream.set_nodelay(true);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        seen.lock().unwrap().push(request.clone());
        if !answer(&request, &mut writer) {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut words = head.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut request = Request { method, path, body: Vec::new(), head: head.clone() };
    if let Some(length) = request.field("content-length") {
        request.body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut request.body).ok()?;
    } else if request.field("transfer-encoding").is_some() {
        request.body = read_chunked(reader)?;
    }
    Some(request)
}
