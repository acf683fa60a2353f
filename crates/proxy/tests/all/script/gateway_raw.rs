//! A request that no well-behaved client of HTTP/2 would send, frame by frame, with its bytes as they are.

use std::net::SocketAddr;

use super::asked::Asked;
use crate::frames::{
    CALM, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, RST_STREAM, block,
};

/// What a stream that was reset, or a connection that was ended, for being malformed counts as.
pub const RESET: &[u8] = b"HTTP/1.1 400 Reset\r\nContent-Length: 0\r\n\r\n";

/// A frame's content may be so long.
const MAX_FRAME_BYTES: usize = 16_384;

/// Sends it on a connection of its own; what the proxy says, as HTTP/1.1 has it.
pub fn answer(proxy: SocketAddr, asked: &Asked, content: &[u8]) -> Vec<u8> {
    let mut frames = Frames::connect(proxy, &[]);
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = vec![(b":method".to_vec(), asked.method.clone())];
    if !asked.path.is_empty() {
        fields.push((b":scheme".to_vec(), asked.scheme.clone()));
        fields.push((b":path".to_vec(), asked.path.clone()));
    }
    fields.extend(asked.authority.iter().map(|authority| (b":authority".to_vec(), authority.clone())));
    fields.extend(asked.fields.iter().cloned());
    let fields: Vec<(&[u8], &[u8])> = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect();
    let block = block(&fields);
    let pieces: Vec<&[u8]> = block.chunks(MAX_FRAME_BYTES).collect();
    for (number, piece) in pieces.iter().enumerate() {
        let kind = if number == 0 { HEADERS } else { CONTINUATION };
        let ends_stream = if number == 0 && content.is_empty() { END_STREAM } else { 0 };
        let ends_head = if number + 1 == pieces.len() { END_HEADERS } else { 0 };
        frames.send(kind, ends_stream | ends_head, 1, piece);
    }
    let pieces: Vec<&[u8]> = content.chunks(MAX_FRAME_BYTES).collect();
    for (number, piece) in pieces.iter().enumerate() {
        frames.send(DATA, if number + 1 == pieces.len() { END_STREAM } else { 0 }, 1, piece);
    }
    match frames.find(&[HEADERS, RST_STREAM, GOAWAY]) {
        Some(head) if head.kind == HEADERS => whole(&mut frames, &head),
        Some(end) if end.kind == GOAWAY && end.code() == CALM => {
            b"HTTP/1.1 431 Calm\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        _ => RESET.to_vec(),
    }
}

/// An answer's status, and its content to the end of the stream.
fn whole(frames: &mut Frames, head: &Frame) -> Vec<u8> {
    let mut body = Vec::new();
    let mut ended = head.flags & END_STREAM != 0;
    while !ended && let Some(data) = frames.find(&[DATA, RST_STREAM, GOAWAY]) {
        ended = data.kind != DATA || data.flags & END_STREAM != 0;
        body.extend(if data.kind == DATA { data.payload } else { Vec::new() });
    }
    let start = format!("HTTP/1.1 {} Status\r\nContent-Length: {}\r\n\r\n", status(&head.payload), body.len());
    [start.as_bytes(), &body].concat()
}

/// The status that a block begins with (RFC 7541 A and 6.2): indexed, or three digits by Huffman's code.
fn status(block: &[u8]) -> u16 {
    const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    match block {
        [first, ..] if first & 0x80 != 0 => INDEXED[usize::from(first & 0x7f) - 8],
        [_, length, digits @ ..] if length & 0x80 != 0 => {
            let bits =
                digits.iter().take(usize::from(length & 0x7f)).fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
            let mut left = 8 * u32::from(length & 0x7f);
            (0..3).fold(0, |status, _| {
                let five = bits >> (left - 5) & 31;
                // 0, 1 and 2 have five bits, the others six (RFC 7541 B).
                let (digit, taken) = if five < 3 { (five, 5) } else { ((bits >> (left - 6) & 63) - 22, 6) };
                left -= taken;
                status * 10 + digit as u16
            })
        }
        [_, _, digits @ ..] => digits.iter().take(3).fold(0, |status, digit| status * 10 + u16::from(digit - b'0')),
        _ => 0,
    }
}
