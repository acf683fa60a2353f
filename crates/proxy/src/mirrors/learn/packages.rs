//! Paths and digests of an archive's `Packages`, plain or compressed by gzip, in one pass and bounded memory.

use std::io::Write as _;

use flate2::write::MultiGzDecoder;

use crate::mirrors::sum::{Hash, Sum};

/// Bytes of a line at most that is looked at.
const MOST_LINE: usize = 1024;
/// What is unpacked at once, of which at most some thousand times as much comes.
const STEP: usize = 1024;
/// Text shrinks to a tenth. What grows more than so many times, past a beginning, is made to.
const MOST_GROWTH: u64 = 64;
const GROWTH_FROM: u64 = 1 << 20;

/// Reads one. Memory: some 50 KB, and some 1.1 MB at most where it is compressed.
#[derive(Debug, Default)]
pub(super) struct Packages {
    packing: Packing,
    stanzas: Stanzas,
}

#[derive(Debug, Default)]
enum Packing {
    /// Not known yet: the first bytes.
    #[default]
    Unknown,
    Begun(u8),
    Plain,
    Gzip(Box<Unpacking>),
    /// By something else, or malformed.
    Other,
}

#[derive(Debug)]
struct Unpacking {
    decoder: MultiGzDecoder<Vec<u8>>,
    taken: u64,
    made: u64,
}

/// Paragraphs of fields.
#[derive(Debug, Default)]
struct Stanzas {
    line: Vec<u8>,
    file: Option<String>,
    sum: Option<Sum>,
}

impl Packages {
    /// Reads the next piece. Each file is found by its path below the archive.
    pub fn push(&mut self, piece: &[u8], find: &mut dyn FnMut(&str, Sum)) {
        let Packages { packing, stanzas } = self;
        let mut piece = piece;
        loop {
            match packing {
                Packing::Unknown | Packing::Begun(_) => {
                    let Some((byte, rest)) = piece.split_first() else { return };
                    let (was, text) = (std::mem::take(packing), [*byte]);
                    piece = rest;
                    *packing = match (was, byte) {
                        (Packing::Unknown, 0x1f) => Packing::Begun(0x1f),
                        (Packing::Unknown, byte) if byte.is_ascii_graphic() || *byte == b'\n' => {
                            stanzas.push(&text, find);
                            Packing::Plain
                        }
                        (Packing::Begun(first), 0x8b) => {
                            let mut decoder = MultiGzDecoder::new(Vec::new());
                            match decoder.write_all(&[first, 0x8b]) {
                                Ok(()) => Packing::Gzip(Box::new(Unpacking { decoder, taken: 2, made: 0 })),
                                Err(_) => Packing::Other,
                            }
                        }
                        _ => Packing::Other,
                    };
                }
                Packing::Plain => return stanzas.push(piece, find),
                Packing::Gzip(unpacking) => {
                    if !unpacking.push(piece, stanzas, find) {
                        *packing = Packing::Other;
                    }
                    return;
                }
                Packing::Other => return,
            }
        }
    }

    /// The last line may have no end.
    pub fn end(&mut self, find: &mut dyn FnMut(&str, Sum)) {
        if let Packing::Gzip(unpacking) = &mut self.packing
            && unpacking.decoder.try_finish().is_ok()
        {
            let rest = std::mem::take(unpacking.decoder.get_mut());
            self.stanzas.push(&rest, find);
        }
        self.stanzas.push(b"\n\n", find);
    }
}

impl Unpacking {
    /// Whether more of it is worth reading.
    fn push(&mut self, piece: &[u8], stanzas: &mut Stanzas, find: &mut dyn FnMut(&str, Sum)) -> bool {
        for step in piece.chunks(STEP) {
            // All that there is of it: whoever has the index may ask for a file at once.
            if self.decoder.write_all(step).is_err() || self.decoder.flush().is_err() {
                return false;
            }
            let text = std::mem::take(self.decoder.get_mut());
            self.taken += step.len() as u64;
            self.made += text.len() as u64;
            if self.made > GROWTH_FROM + self.taken * MOST_GROWTH {
                return false;
            }
            stanzas.push(&text, find);
        }
        true
    }
}

impl Stanzas {
    fn push(&mut self, mut piece: &[u8], find: &mut dyn FnMut(&str, Sum)) {
        while !piece.is_empty() {
            let end = piece.iter().position(|byte| *byte == b'\n');
            let (line, rest) = piece.split_at(end.unwrap_or(piece.len()));
            let room = (MOST_LINE + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(line.get(..room.min(line.len())).unwrap_or_default());
            piece = rest.get(1..).unwrap_or_default();
            if end.is_some() {
                self.end_line(find);
                self.line.clear();
            }
        }
    }

    fn end_line(&mut self, find: &mut dyn FnMut(&str, Sum)) {
        let line = self.line.trim_ascii_end();
        if line.is_empty() {
            (self.file, self.sum) = (None, None);
            return;
        }
        let value = |name: &[u8]| {
            let (field, value) = line.split_at_checked(name.len())?;
            let value = std::str::from_utf8(value.strip_prefix(b":")?).ok()?.trim();
            field.eq_ignore_ascii_case(name).then_some(value).filter(|_| self.line.len() <= MOST_LINE)
        };
        if let Some(file) = value(b"Filename") {
            self.file = Some(file.to_owned());
        } else if let Some(hex) = value(b"SHA256") {
            self.sum = Sum::hex(Hash::Sha256, hex);
        }
        if let (Some(file), Some(sum)) = (&self.file, self.sum) {
            find(file, sum);
            (self.file, self.sum) = (None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn text() -> String {
        format!(
            "Package: a\nFilename: pool/a.deb\nSHA256: {SUM}\nDescription: x\n Filename: no\n\n\
             Package: b\nfilename:./b.deb\nsha256:{SUM}\r\n\r\nFilename: c.deb\nSHA256: 00\n\nSHA256: {SUM}\n\n\
             Filename: {}\nSHA256: {SUM}\n\nFilename: d.deb\nSHA256: {SUM}",
            "x".repeat(2000)
        )
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn found(bytes: &[u8], size: usize) -> Vec<String> {
        let (mut packages, mut all) = (Packages::default(), Vec::new());
        let mut find = |file: &str, sum: Sum| {
            assert_eq!(Some(sum), Sum::hex(Hash::Sha256, SUM));
            all.push(file.to_owned());
        };
        bytes.chunks(size).for_each(|piece| packages.push(piece, &mut find));
        packages.end(&mut find);
        all
    }

    #[test]
    fn stanzas_plain_and_compressed() {
        let text = text();
        let (plain, packed) = (text.as_bytes(), gzipped(text.as_bytes()));
        // As `cat` puts them together.
        let twice = [&packed[..], &gzipped(b"\n\n"), &packed].concat();
        for size in [1, 2, 3, 100, 10_000] {
            let expected = ["pool/a.deb", "./b.deb", "d.deb"];
            assert_eq!(found(plain, size), expected, "pieces of {size}");
            assert_eq!(found(&packed, size), expected, "pieces of {size}");
            assert_eq!(found(&twice, size), [expected, expected].concat(), "pieces of {size}");
        }
    }

    #[test]
    fn what_is_none() {
        let packed = gzipped(text().as_bytes());
        let xz = b"\xfd7zXZ\0Filename: a\n";
        for bytes in [&b""[..], b"\x1f", b"\x1f\x8b", b"\x1fFilename: a", xz, &packed[..20]] {
            assert_eq!(found(bytes, 3), Vec::<String>::new());
        }
        let mut broken = packed;
        broken[30] ^= 0xff;
        found(&broken, 7);
    }

    #[test]
    fn all_is_told_with_the_piece_that_says_it() {
        let packed = gzipped(format!("Filename: a.deb\nSHA256: {SUM}\n").as_bytes());
        let (mut packages, mut count) = (Packages::default(), 0);
        packages.push(&packed, &mut |_, _| count += 1);
        assert_eq!(count, 1);
    }

    #[test]
    fn a_line_without_an_end_and_a_bomb_are_given_up() {
        let mut packages = Packages::default();
        for _ in 0..64 {
            packages.push(&[b'F'; 1 << 20], &mut |_, _| panic!("there is no file"));
            assert!(packages.stanzas.line.capacity() <= 2 * (MOST_LINE + 1));
        }
        let bomb = gzipped(&vec![b'\n'; 64 << 20]);
        let mut packages = Packages::default();
        packages.push(&bomb, &mut |_, _| panic!("there is no file"));
        assert!(matches!(packages.packing, Packing::Other));
    }
}
