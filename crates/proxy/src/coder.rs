//! Content that is compressed piece by piece, in memory.
//!
//! The levels are the middle ones, at which style sheets and scripts shrink to a fifth or a quarter of their length. The highest take many times
//! as long for a few percent more, and somebody waits behind each form that is made. One coder takes some 0.3 MB for gzip and some megabytes for br and
//! zstd, besides what it has made.
//!
//! Nothing is ever decompressed here, so there is no bomb to defuse.

use std::io::{self, Write as _};

use flate2::write::GzEncoder;
use tinaja_http::encoding::Coding;

const GZIP_LEVEL: u32 = 6;
const BR_QUALITY: u32 = 5;
/// The window's size as a power of two: 1 MiB. Decoders must have memory for it.
const BR_WINDOW: u32 = 20;
/// What br takes in before it looks at it, in bytes.
const BR_BUFFER: usize = 16 * 1024;
/// Its window is 4 MiB at most: RFC 8878 3.1.1.1.2 has decoders take 8.
const ZSTD_LEVEL: i32 = 6;

/// Compresses one body.
pub(crate) enum Coder {
    Gzip(GzEncoder<Vec<u8>>),
    Br(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Coder {
    /// One for a body of so many bytes.
    ///
    /// Errors: there is no memory for it.
    pub fn new(coding: Coding, length: u64) -> io::Result<Coder> {
        Ok(match coding {
            Coding::Gzip => Coder::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL))),
            Coding::Br => {
                let most = brotli::enc::BrotliEncoderParams {
                    quality: i32::try_from(BR_QUALITY).unwrap_or_default(),
                    lgwin: i32::try_from(BR_WINDOW).unwrap_or_default(),
                    size_hint: usize::try_from(length).unwrap_or_default(),
                    ..Default::default()
                };
                Coder::Br(Box::new(brotli::CompressorWriter::with_params(Vec::new(), BR_BUFFER, &most)))
            }
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                // What is known to be short needs small tables.
                encoder.set_pledged_src_size(Some(length))?;
                Coder::Zstd(encoder)
            }
        })
    }

    /// Takes the next piece.
    ///
    /// Errors: the compressor refuses, as for more bytes than were announced.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Coder::Gzip(encoder) => encoder.write_all(piece),
            Coder::Br(encoder) => encoder.write_all(piece),
            Coder::Zstd(encoder) => encoder.write_all(piece),
        }
    }

    /// How many bytes have come out so far.
    pub fn made(&self) -> usize {
        match self {
            Coder::Gzip(encoder) => encoder.get_ref().len(),
            Coder::Br(encoder) => encoder.get_ref().len(),
            Coder::Zstd(encoder) => encoder.get_ref().len(),
        }
    }

    /// All that came out.
    ///
    /// Errors: the compressor refuses, as for fewer bytes than were announced.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Coder::Gzip(encoder) => encoder.finish(),
            Coder::Br(encoder) => Ok(encoder.into_inner()),
            Coder::Zstd(encoder) => encoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut all).unwrap(),
            Coding::Br => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut all).unwrap(),
            Coding::Zstd => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut all).unwrap(),
        };
        all
    }

    fn text(bytes: usize) -> Vec<u8> {
        let words = ["answer ", "cache ", "origin ", "{\"key\": ", "</div>\n", "stale ", "1234 "];
        let mut state = 7_u64;
        let mut all = Vec::new();
        while all.len() < bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            all.extend_from_slice(words[(state >> 33) as usize % words.len()].as_bytes());
        }
        all.truncate(bytes);
        all
    }

    #[test]
    fn there_and_back() {
        for coding in Coding::ALL {
            for length in [1, 512, 200_000, 3_000_000] {
                let body = text(length);
                let mut coder = Coder::new(coding, length as u64).unwrap();
                body.chunks(100_000).for_each(|piece| coder.write(piece).unwrap());
                let made = coder.finish().unwrap();
                assert!(length < 512 || made.len() < length / 2, "{coding:?}: {length} became {}", made.len());
                assert!(decoded(coding, &made) == body, "{coding:?} {length}");
            }
        }
    }

    /// A body that is shorter or longer than it was said to be is not passed off as whole.
    #[test]
    fn zstd_holds_its_caller_to_the_length() {
        let mut coder = Coder::new(Coding::Zstd, 10).unwrap();
        coder.write(b"short").unwrap();
        assert!(coder.finish().is_err());
    }
}
