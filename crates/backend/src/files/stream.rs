//! One stream's file: written anywhere until it is finished, read block by block, every block checked.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tinaja_store::Digest;

use super::format::{BLOCK_BYTES, END_BYTES, Seal, blocks, file_bytes};
use super::{FileFault, Files};
use crate::format::InFile;

/// A stream's file, open. Memory: 8 bytes for each block of 64 KiB. Its calls block. Who has it open reads on when its name is
/// gone; if it was never finished, it goes with the last who has it.
pub(crate) struct StreamFile {
    files: Arc<Files>,
    seal: Seal,
    bytes: AtomicU64,
    /// The last sum, once it is finished.
    sum: OnceLock<u64>,
    /// Shared with the thread that lets go of it in the end.
    content: Arc<Mutex<Content>>,
}

struct Content {
    file: File,
    bytes: u64,
    sums: Vec<u64>,
    /// What of the room is this file's while it is written.
    reserved: u64,
}

impl StreamFile {
    /// A new, empty one for an entry. Errors: [`FileFault`].
    pub(crate) fn create(files: &Arc<Files>, id: Digest) -> Result<Self, FileFault> {
        let number = loop {
            let random = getrandom::u64().map_err(|error| FileFault::Io(format!("no random number: {error}")))?;
            if random != 0 && !files.lasting(random).exists() {
                break random;
            }
        };
        let path = files.part(number);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| FileFault::Io(format!("{}: {error}", path.display())))?;
        Ok(Self::over(files, files.seal(number, id), Content { file, bytes: 0, sums: Vec::new(), reserved: 0 }))
    }

    fn over(files: &Arc<Files>, seal: Seal, content: Content) -> Self {
        StreamFile {
            files: files.clone(),
            seal,
            bytes: AtomicU64::new(content.bytes),
            sum: OnceLock::new(),
            content: Arc::new(Mutex::new(content)),
        }
    }

    /// One that an entry's record speaks of. Errors: [`FileFault`], if it is not there or is not that one.
    pub(crate) fn open(files: &Arc<Files>, id: Digest, at: InFile, bytes: u64) -> Result<Self, FileFault> {
        let (path, seal) = (files.lasting(at.number), files.seal(at.number, id));
        let fault = |error: &std::io::Error| FileFault::of("read of", &path, error);
        let file = File::open(&path).map_err(|error| fault(&error))?;
        let length = file.metadata().map_err(|error| fault(&error))?.len();
        let Some(end_at) = length.checked_sub(END_BYTES).filter(|_| length == file_bytes(bytes)) else {
            return Err(FileFault::Damaged);
        };
        let mut end = vec![0; END_BYTES as usize];
        file.read_exact_at(&mut end, end_at).map_err(|error| fault(&error))?;
        let (end, sum) = seal.verify_end(&end).ok_or(FileFault::Damaged)?;
        if (end.bytes, sum) != (bytes, at.sum) {
            return Err(FileFault::Damaged);
        }
        let mut sums = vec![0; 8 * blocks(bytes) as usize];
        file.read_exact_at(&mut sums, bytes).map_err(|error| fault(&error))?;
        let sums = seal.verify_sums(&end, &sums).ok_or(FileFault::Damaged)?;
        let opened = Self::over(files, seal, Content { file, bytes, sums, reserved: 0 });
        let _ = opened.sum.set(sum);
        Ok(opened)
    }

    /// Bytes of the stream. Does not block.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Whether it changes no more. Does not block.
    pub(crate) fn is_finished(&self) -> bool {
        self.sum.get().is_some()
    }

    /// What an entry's record says of it; `None` until it is finished. Does not block.
    pub(crate) fn at(&self) -> Option<InFile> {
        self.sum.get().map(|sum| InFile { number: self.seal.number, sum: *sum })
    }

    /// Up to `most` bytes from `at` on. Errors: [`FileFault`].
    pub(crate) fn read(&self, at: u64, most: usize) -> Result<Bytes, FileFault> {
        let content = self.content.lock();
        let end = at.saturating_add(most as u64).min(content.bytes);
        let mut read = BytesMut::new();
        let mut block = at / BLOCK_BYTES;
        while block * BLOCK_BYTES < end {
            let bytes = self.block(&content, block)?;
            let from = at.saturating_sub(block * BLOCK_BYTES) as usize;
            let to = (end - block * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
            read.extend_from_slice(bytes.get(from..to).unwrap_or_default());
            block += 1;
        }
        Ok(read.freeze())
    }

    /// A whole block, or what there is of the last, as it was written.
    fn block(&self, content: &Content, block: u64) -> Result<Vec<u8>, FileFault> {
        let start = block * BLOCK_BYTES;
        let mut bytes = vec![0; content.bytes.saturating_sub(start).min(BLOCK_BYTES) as usize];
        content.file.read_exact_at(&mut bytes, start).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => FileFault::Damaged,
            _ => FileFault::Io(format!("read of a stream's file: {error}")),
        })?;
        let sum = content.sums.get(block as usize);
        if sum == Some(&self.seal.block(block, &bytes)) { Ok(bytes) } else { Err(FileFault::Damaged) }
    }

    /// Write at `at`, past the end too: what lies between is zeros. With `truncate` the stream ends behind what is written.
    /// Errors: [`FileFault`]; the stream may then be unreadable where it was written, and is not to be kept.
    pub(crate) fn write(&self, at: u64, data: &[u8], truncate: bool) -> Result<(), FileFault> {
        let mut content = self.content.lock();
        if self.is_finished() {
            return Err(FileFault::Io("a finished file is not written to".into()));
        }
        let (old, end) = (content.bytes, at.saturating_add(data.len() as u64));
        let new = if truncate { end } else { old.max(end) };
        self.reserve(&mut content, file_bytes(old.max(new)))?;
        let grows = end > old || !data.is_empty();
        let touched = if grows { at.min(old) / BLOCK_BYTES..blocks(old.max(end).min(end)) } else { 0..0 };
        for block in touched {
            self.write_block(&mut content, block, at, data, old.max(end))?;
        }
        if grows {
            content.bytes = old.max(end);
        }
        if new < content.bytes {
            self.cut(&mut content, new)?;
        }
        content.file.set_len(content.bytes).map_err(|error| FileFault::Io(format!("a stream's file: {error}")))?;
        self.bytes.store(content.bytes, SeqCst);
        self.reserve(&mut content, file_bytes(new))
    }

    /// Write what one block has of `data`, in a stream that will have so many bytes.
    fn write_block(
        &self,
        content: &mut Content,
        block: u64,
        at: u64,
        data: &[u8],
        will_have: u64,
    ) -> Result<(), FileFault> {
        let start = block * BLOCK_BYTES;
        let length = will_have.saturating_sub(start).min(BLOCK_BYTES);
        let end = at + data.len() as u64;
        let had = content.bytes.saturating_sub(start).min(BLOCK_BYTES);
        let mut bytes =
            if had > 0 && !(at <= start && end >= start + had) { self.block(content, block)? } else { Vec::new() };
        bytes.resize(length as usize, 0);
        let (from, to) = (at.max(start), end.min(start + length));
        if from < to {
            let into = bytes.get_mut((from - start) as usize..(to - start) as usize).unwrap_or_default();
            into.copy_from_slice(data.get((from - at) as usize..(to - at) as usize).unwrap_or_default());
        }
        if had > 0 || from < to {
            let written = content.file.write_all_at(&bytes, start);
            written.map_err(|error| FileFault::Io(format!("write of a stream's file: {error}")))?;
        }
        self.set_sum(content, block, self.seal.block(block, &bytes));
        Ok(())
    }

    fn set_sum(&self, content: &mut Content, block: u64, sum: u64) {
        match content.sums.get_mut(block as usize) {
            Some(there) => *there = sum,
            None => content.sums.push(sum),
        }
    }

    fn cut(&self, content: &mut Content, bytes: u64) -> Result<(), FileFault> {
        let last = bytes / BLOCK_BYTES;
        let left = (bytes % BLOCK_BYTES) as usize;
        if left > 0 {
            let block = self.block(content, last)?;
            let sum = self.seal.block(last, block.get(..left).unwrap_or_default());
            self.set_sum(content, last, sum);
        }
        content.sums.truncate(blocks(bytes) as usize);
        content.bytes = bytes;
        Ok(())
    }

    fn reserve(&self, content: &mut Content, bytes: u64) -> Result<(), FileFault> {
        match bytes.checked_sub(content.reserved) {
            Some(more) => self.files.reserve(more)?,
            None => self.files.release(content.reserved - bytes),
        }
        content.reserved = bytes;
        Ok(())
    }

    /// Another with the same bytes, which may be written to. Errors: [`FileFault`].
    pub(crate) fn copy(&self) -> Result<Self, FileFault> {
        let copy = Self::create(&self.files, self.seal.id)?;
        let mut at = 0;
        while at < self.bytes() {
            let piece = self.read(at, BLOCK_BYTES as usize)?;
            copy.write(at, &piece, false)?;
            at += piece.len() as u64;
        }
        Ok(copy)
    }

    /// Give it its end and its lasting name; once is enough. With `lasting` it survives a cut of the power from then on. Errors:
    /// [`FileFault`].
    pub(crate) fn finish(&self, lasting: bool) -> Result<(), FileFault> {
        let mut content = self.content.lock();
        if self.is_finished() {
            return Ok(());
        }
        let bytes = file_bytes(content.bytes);
        self.reserve(&mut content, bytes)?;
        let (end, sum) = self.seal.end(content.bytes, &content.sums);
        let io = |error: std::io::Error| FileFault::Io(format!("write of a stream's file: {error}"));
        content.file.write_all_at(&end, content.bytes).map_err(io)?;
        if lasting {
            content.file.sync_all().map_err(io)?;
        }
        fs::rename(self.files.part(self.seal.number), self.files.lasting(self.seal.number)).map_err(io)?;
        content.reserved = 0;
        // Nobody else finishes it: the content is locked.
        let _ = self.sum.set(sum);
        drop(content);
        if lasting {
            self.files.sync_names()?;
        }
        self.files.finished(self.seal.number, bytes)
    }
}

impl Drop for StreamFile {
    fn drop(&mut self) {
        let part = (!self.is_finished()).then(|| self.files.part(self.seal.number));
        if part.is_some() {
            let reserved = std::mem::take(&mut self.content.lock().reserved);
            self.files.release(reserved);
        }
        // The last to close a file without a name waits until the system has freed its blocks.
        self.files.let_go(part, self.content.clone());
    }
}
