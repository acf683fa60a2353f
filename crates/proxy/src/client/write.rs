//! Writing several buffers as one.

use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Writes `before`, `piece` and `behind` with as few calls as the stream allows, one where it takes all.
pub(crate) async fn write_as_one(
    stream: &mut (impl AsyncWrite + Unpin),
    before: Vec<u8>,
    piece: Bytes,
    behind: &'static [u8],
) -> io::Result<()> {
    let mut all = Bytes::from(before).chain(piece).chain(Bytes::from_static(behind));
    while all.has_remaining() {
        let mut slices = [IoSlice::new(&[]); 3];
        let filled = all.chunks_vectored(&mut slices);
        let written = stream.write_vectored(slices.get(..filled).unwrap_or_default()).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        all.advance(written);
    }
    Ok(())
}
