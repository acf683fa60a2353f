//! A small origin over plain threads: it counts requests, keeps their heads, and lets the test write raw answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub head: String,
    pub method: String,
    pub path: String,
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a field, by its name in lower case.
    pub fn field(&self, name: &str) -> Option<String> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

/// A server on loopback. Its threads end with their connections.
pub struct Origin {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
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
        let answer = Arc::new(answer);
        let seen = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (answer, seen) = (answer.clone(), seen.clone());
                std::thread::spawn(move || serve(stream, &*answer, &seen));
            }
        });
        Origin { address, requests }
    }

    /// Answers every request with these header lines and this body, and a Content-Length.
    pub fn fixed(fields: &'static str, body: &'static str) -> Origin {
        Origin::start(move |request, stream| reply(stream, request, 200, fields, body.as_bytes()))
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

/// Writes an answer with a Content-Length; the body is left out for HEAD. The connection stays open.
pub fn reply(stream: &mut TcpStream, request: &Request, status: u16, fields: &str, body: &[u8]) -> bool {
    let head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    let written = stream.write_all(head.as_bytes()).is_ok();
    written && (request.method == "HEAD" || stream.write_all(body).is_ok())
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Request, &mut TcpStream) -> bool, seen: &Mutex<Vec<Request>>) {
    let mut writer = stream.try_clone().unwrap();
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
        request.body = super::client::read_chunked(reader)?;
    }
    Some(request)
}
