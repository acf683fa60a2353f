//! One open file: an object that is read, or one that is written.

use std::io::SeekFrom;

use bytes::{Buf, Bytes};
use tinaja_store::{Body, Hit, ReadError, Writer, block_on};

use crate::error::FileError;

pub(super) enum Open {
    Reading(Reading),
    Writing(Writing),
}

/// An object that is read.
pub(super) struct Reading {
    head: Bytes,
    body: Body,
    at: u64,
    /// What was read ahead of the program: the rest of a piece.
    rest: Bytes,
}

/// An object that is written.
pub(super) struct Writing {
    pub(super) writer: Writer,
    head: Bytes,
    bytes: u64,
}

impl Reading {
    pub(super) fn of(hit: Hit) -> Self {
        Reading { head: hit.head, body: hit.body, at: 0, rest: Bytes::new() }
    }

    pub(super) fn head(&self) -> &Bytes {
        &self.head
    }

    pub(super) fn length(&self) -> Option<u64> {
        self.body.len()
    }

    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, FileError> {
        if into.is_empty() {
            return Ok(0);
        }
        if self.rest.is_empty() {
            match block_on(self.body.next(into.len())).map_err(FileError::Read)? {
                Some(piece) => self.rest = piece,
                None => return Ok(0),
            }
        }
        let bytes = self.rest.len().min(into.len());
        into.iter_mut().zip(&self.rest).for_each(|(to, from)| *to = *from);
        self.rest.advance(bytes);
        self.at += bytes as u64;
        Ok(bytes)
    }

    pub(super) fn seek(&mut self, to: SeekFrom) -> Result<u64, FileError> {
        let length = self.length();
        let asked = match to {
            SeekFrom::Start(at) => i128::from(at),
            SeekFrom::Current(by) => i128::from(self.at) + i128::from(by),
            SeekFrom::End(by) => i128::from(length.ok_or(FileError::LengthUnknown)?) + i128::from(by),
        };
        let beyond = FileError::BeyondEnd { asked, length: length.unwrap_or(u64::MAX) };
        let at = u64::try_from(asked).map_err(|_| beyond.clone())?;
        if length.is_some_and(|length| at > length) {
            return Err(beyond);
        }
        self.body
            .seek(at..u64::MAX)
            .map_err(|error| if error == ReadError::Range { beyond } else { FileError::Read(error) })?;
        (self.at, self.rest) = (at, Bytes::new());
        Ok(at)
    }
}

impl Writing {
    pub(super) fn to(writer: Writer, head: Bytes) -> Self {
        Writing { writer, head, bytes: 0 }
    }

    pub(super) fn head(&self) -> &Bytes {
        &self.head
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        // The store holds what it was given until the disk has it: a piece at a time, not all that a program has.
        for piece in bytes.chunks(PIECE_BYTES) {
            block_on(self.writer.write(Bytes::copy_from_slice(piece)));
        }
        self.bytes += bytes.len() as u64;
        bytes.len()
    }
}

/// Bytes that one write copies at a time.
const PIECE_BYTES: usize = 256 << 10;
