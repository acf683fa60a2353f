//! An origin that costs as little as it can: the same answer to every request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Answers with so many bytes that may be kept for a day, on threads of this process.
pub fn start(body_bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: {}\r\nContent-Type: text/html\r\nContent-Length: {body_bytes}\r\n\
         Last-Modified: Tue, 01 Nov 2022 08:12:31 GMT\r\nETag: \"636f-2000\"\r\nCache-Control: max-age=86400\r\n\
         Accept-Ranges: bytes\r\n\r\n",
        now()
    )
    .into_bytes();
    answer.resize(answer.len() + body_bytes, b'b');
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, answer) = (stream.unwrap(), answer.clone());
            std::thread::spawn(move || serve(stream, &answer));
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: &[u8]) {
    stream.set_nodelay(true).unwrap();
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(read) => head.extend_from_slice(&piece[..read]),
        }
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

fn now() -> String {
    let date =
        std::process::Command::new("date").args(["-u", "+%a, %d %b %Y %H:%M:%S GMT"]).env("LC_ALL", "C").output();
    String::from_utf8(date.unwrap().stdout).unwrap().trim().to_owned()
}
