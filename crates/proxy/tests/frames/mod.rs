//! A client of HTTP/2 that writes frames byte by byte, so that they can be wrong (RFC 9113 4.1, RFC 7541).
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// The longest frame that everybody takes (RFC 9113 4.2).
const MAX_FRAME_BYTES: usize = 16_384;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Error codes (RFC 9113 7).
pub const PROTOCOL_ERROR: u32 = 1;
pub const CANCEL: u32 = 8;
pub const CALM: u32 = 0xb;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM and GOAWAY.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

pub struct Frames {
    stream: TcpStream,
}

impl Frames {
    /// A connection whose preface was sent, with these settings.
    pub fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Frames {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut frames = Frames { stream };
        let payload: Vec<u8> =
            settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        frames.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        frames.send(SETTINGS, 0, 0, &payload);
        frames
    }

    /// Another way to send on it, while answers are read.
    pub fn sender(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// Whether it could be sent.
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.raw(&frame(kind, flags, stream, payload))
    }

    /// A whole request without content.
    pub fn get(&mut self, stream: u32, fields: &[(&str, &[u8])]) -> bool {
        self.raw(&request(stream, fields))
    }

    /// The next frame; nothing once the connection is closed.
    pub fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// The first frame of these kinds; nothing if the connection closes before.
    pub fn find(&mut self, kinds: &[u8]) -> Option<Frame> {
        loop {
            let frame = self.read()?;
            if kinds.contains(&frame.kind) {
                return Some(frame);
            }
        }
    }

    /// The code of the last GOAWAY before the connection was closed.
    pub fn goodbye(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(frame) = self.read() {
            if frame.kind == GOAWAY {
                code = Some(frame.code());
            }
        }
        code
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A whole request without content. What does not fit into one frame is in CONTINUATIONs.
pub fn request(stream: u32, fields: &[(&str, &[u8])]) -> Vec<u8> {
    let block = block(fields);
    let mut frames = Vec::new();
    let mut parts = block.chunks(MAX_FRAME_BYTES).peekable();
    let (mut kind, mut flags) = (HEADERS, END_STREAM);
    while let Some(part) = parts.next() {
        let ends = if parts.peek().is_none() { END_HEADERS } else { 0 };
        frames.extend(frame(kind, flags | ends, stream, part));
        (kind, flags) = (CONTINUATION, 0);
    }
    frames
}

/// Fields as literals that are not indexed (RFC 7541 6.2.2).
pub fn block<N: AsRef<[u8]>>(fields: &[(N, &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        string(&mut block, name.as_ref());
        string(&mut block, value);
    }
    block
}

/// A string, as it is (RFC 7541 5.2).
pub fn string(block: &mut Vec<u8>, text: &[u8]) {
    let mut length = text.len();
    if length < 127 {
        block.push(length as u8);
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push((length % 128) as u8 | 128);
            length /= 128;
        }
        block.push(length as u8);
    }
    block.extend_from_slice(text);
}
