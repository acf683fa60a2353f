//! Bodies of answers: the same content and the same end however the bytes come, and never more than was framed.
#![no_main]

use bytes::BytesMut;
use tinaja_http::body::{BodyWalk, Framing};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(([framing, piece], body)) = data.split_first_chunk() else { return };
    let framing = if framing % 2 == 0 { Framing::Chunked } else { Framing::Length(u64::from(*framing) / 2) };
    let at_once = read(framing, body, body.len().max(1));
    let in_pieces = read(framing, body, usize::from(*piece).max(1));
    assert_eq!(at_once.0, in_pieces.0, "content");
    assert_eq!(at_once.1, in_pieces.1, "end, what is behind it, or that it is malformed");
    if let Framing::Length(length) = framing {
        assert_eq!(at_once.0.len() as u64, length.min(body.len() as u64));
        assert_eq!(at_once.0, &body[..at_once.0.len()]);
    }
});

/// The content, and whether and with how much behind it the body ended. Of a malformed one what came before the fault.
fn read(framing: Framing, body: &[u8], piece: usize) -> (Vec<u8>, Option<Option<usize>>) {
    let (mut walk, mut waiting, mut content) = (BodyWalk::of_answer(framing), BytesMut::new(), Vec::new());
    let mut left = body;
    loop {
        match walk.next_data(&mut waiting) {
            Ok(Some(data)) => content.extend_from_slice(&data),
            Ok(None) if walk.done() => return (content, Some(Some(waiting.len() + left.len()))),
            Ok(None) if left.is_empty() => return (content, Some(None)),
            Ok(None) => {
                let (now, later) = left.split_at(piece.min(left.len()));
                waiting.extend_from_slice(now);
                left = later;
            }
            Err(_) => return (content, None),
        }
    }
}
