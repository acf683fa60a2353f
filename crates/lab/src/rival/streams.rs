//! The rival's streams: up to 16 KiB in memory while they are written and then in blocks, larger ones in files of their own at once.

use std::io;

use bytes::Bytes;
use tinaja_backend::BackendError;

use super::files::File;
use super::space::{BlockRun, Class, Space};
use super::state::{RivalState, failed};

/// What is larger is in a file of its own.
const LARGEST_IN_BLOCKS: u64 = 16 << 10;

/// A stream.
#[derive(Debug, Default)]
pub struct Stream {
    len: u64,
    data: Data,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    Nothing,
    /// With the blocks that an older version has, which are used again if they fit.
    Memory(Vec<u8>, Option<BlockRun>),
    Blocks(BlockRun),
    File(File),
}

impl Stream {
    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Its blocks or its file are free.
    pub fn drop_from(self, space: &mut Space) -> io::Result<()> {
        match self.data {
            Data::Nothing | Data::Memory(_, None) => Ok(()),
            Data::Blocks(place) | Data::Memory(_, Some(place)) => space.give_back(place),
            Data::File(file) => space.drop_file(file),
        }
    }

    fn read(&self, space: &mut Space, offset: u64, into: &mut [u8]) -> io::Result<()> {
        match &self.data {
            Data::Nothing => {}
            Data::Memory(bytes, _) => {
                let from = bytes.get(offset as usize..).and_then(|bytes| bytes.get(..into.len()));
                into.copy_from_slice(from.ok_or_else(|| io::Error::other("a stream is shorter than it says"))?);
            }
            Data::Blocks(place) => space.read_blocks(*place, offset, into)?,
            Data::File(file) => space.read_file(file, offset, into)?,
        }
        Ok(())
    }

    /// Write into it; whether there was room.
    fn write(&mut self, space: &mut Space, offset: u64, data: &[u8], truncate: bool) -> io::Result<bool> {
        let end = offset + data.len() as u64;
        let len = if truncate { end } else { end.max(self.len) };
        if len > LARGEST_IN_BLOCKS || matches!(self.data, Data::File(_)) {
            return self.write_file(space, offset, data, len);
        }
        let (mut bytes, blocks) = self.take_out(space)?;
        bytes.resize(len as usize, 0);
        if let Some(to) = bytes.get_mut(offset as usize..end as usize) {
            to.copy_from_slice(data);
        }
        *self = Stream { len, data: Data::Memory(bytes, blocks) };
        Ok(true)
    }

    /// All of it, with the blocks that it has on the device; it has nothing itself afterwards.
    fn take_out(&mut self, space: &mut Space) -> io::Result<(Vec<u8>, Option<BlockRun>)> {
        let mut bytes = vec![0; self.len.min(LARGEST_IN_BLOCKS) as usize];
        self.read(space, 0, &mut bytes)?;
        let data = std::mem::take(&mut self.data);
        Ok((bytes, if let Data::Memory(_, Some(place)) | Data::Blocks(place) = data { Some(place) } else { None }))
    }

    fn write_file(&mut self, space: &mut Space, offset: u64, data: &[u8], len: u64) -> io::Result<bool> {
        if !matches!(self.data, Data::File(_)) {
            let mut file = space.make_file()?;
            let had = self.len;
            if !space.grow_file(&mut file, len)? {
                space.drop_file(file)?;
                return Ok(false);
            }
            let (bytes, blocks) = self.take_out(space)?;
            space.write_file(&file, 0, &bytes)?;
            blocks.map_or(Ok(()), |place| space.give_back(place))?;
            *self = Stream { len: had, data: Data::File(file) };
        }
        let had = self.len;
        let Data::File(file) = &mut self.data else { return Ok(false) };
        if !space.grow_file(file, len)? {
            return Ok(false);
        }
        // What lies between its end and what is written is zeros.
        let zeros = vec![0; ZEROS];
        let mut at = had;
        while at < offset {
            let count = (offset - at).min(ZEROS as u64);
            space.write_file(file, at, zeros.get(..count as usize).unwrap_or_default())?;
            at += count;
        }
        space.write_file(file, offset, data)?;
        self.len = len;
        Ok(true)
    }

    /// Out of memory and into blocks; a file gives back what it does not need.
    fn put_away(
        &mut self,
        state_take: &mut dyn FnMut(Class, u32) -> Result<BlockRun, BackendError>,
    ) -> Result<Leftover, BackendError> {
        let Data::Memory(bytes, blocks) = &mut self.data else { return Ok(Leftover::Nothing) };
        let old = blocks.take();
        let wanted = Class::for_bytes(bytes.len() as u64).filter(|_| !bytes.is_empty());
        let Some((class, count)) = wanted else {
            *self = Stream::default();
            return Ok(old.map_or(Leftover::Nothing, Leftover::Free));
        };
        let fits = old.filter(|old| old.class == class && old.count == count);
        let place = match fits {
            Some(place) => place,
            None => state_take(class, count).inspect_err(|_| *blocks = old)?,
        };
        let bytes = std::mem::take(bytes);
        self.data = Data::Blocks(place);
        Ok(Leftover::Write(place, bytes, old.filter(|_| fits.is_none())))
    }
}

/// Bytes of zeros that are written at a time.
const ZEROS: usize = 64 << 10;

/// What is left to do for a stream that was put away.
enum Leftover {
    Nothing,
    Free(BlockRun),
    Write(BlockRun, Vec<u8>, Option<BlockRun>),
}

impl RivalState {
    pub fn data_bytes(&self, id: u64, stream: usize) -> Result<u64, BackendError> {
        let stored = self.entries.get(&id).ok_or(BackendError::NotFound)?;
        stored.streams.get(stream).map(Stream::len).ok_or(BackendError::NoSuchStream(stream))
    }

    pub fn read(&mut self, id: u64, stream: usize, offset: u64, most: usize) -> Result<Bytes, BackendError> {
        let stored = self.entries.get(&id).ok_or(BackendError::NotFound)?;
        let stream = stored.streams.get(stream).ok_or(BackendError::NoSuchStream(stream))?;
        let count = stream.len.saturating_sub(offset).min(most as u64);
        let mut bytes = vec![0; count as usize];
        if count > 0 {
            let read = stream.read(&mut self.space, offset, &mut bytes);
            read.map_err(|error| BackendError::Unreadable(error.to_string()))?;
        }
        Ok(bytes.into())
    }

    pub fn write(&mut self, id: u64, at: usize, offset: u64, data: &[u8], truncate: bool) -> Result<(), BackendError> {
        if self.stopped {
            return Err(BackendError::Stopped);
        }
        // An eighth of the cache, as the public design has it.
        let (most, asked) = (self.options.bytes / 8, offset.saturating_add(data.len() as u64));
        let stored = self.entries.get(&id).ok_or(BackendError::NotFound)?;
        match () {
            () if stored.doomed => return Err(BackendError::Doomed),
            () if asked > most => return Err(BackendError::OutOfRange { asked, most }),
            () => {}
        }
        let before = self.data_bytes(id, at)?;
        if data.is_empty() && !truncate {
            return Ok(());
        }
        self.make_room(asked.saturating_sub(before))?;
        let (space, stored) = (&mut self.space, self.entries.get_mut(&id).ok_or(BackendError::NotFound)?);
        stored.dirty = true;
        let stream = stored.streams.get_mut(at).ok_or(BackendError::NoSuchStream(at))?;
        let wrote = stream.write(space, offset, data, truncate);
        let after = stream.len;
        self.used = (self.used + after).saturating_sub(before);
        self.counts.written_bytes += data.len() as u64;
        match wrote {
            Ok(true) => Ok(()),
            Ok(false) => Err(BackendError::Full("there is no room for its file")),
            Err(error) => Err(BackendError::Unreadable(error.to_string())),
        }
    }

    /// What is in memory of an entry goes into blocks, and its block and rank say so.
    pub fn put_away(&mut self, id: u64) -> Result<(), BackendError> {
        let Some(stored) = self.entries.get_mut(&id).filter(|stored| stored.dirty) else { return Ok(()) };
        stored.dirty = false;
        let mut streams = std::mem::take(&mut stored.streams);
        let mut done = Ok(());
        for stream in &mut streams {
            done = done.and_then(|()| self.put_stream_away(stream));
        }
        if let Some(stored) = self.entries.get_mut(&id) {
            stored.streams = streams;
        }
        done?;
        self.write_entry(id).and_then(|()| self.rank_written(id)).map_err(failed)
    }

    fn put_stream_away(&mut self, stream: &mut Stream) -> Result<(), BackendError> {
        let len = stream.len;
        if let Data::File(file) = &mut stream.data {
            return self.space.cut_file(file, len).map_err(failed);
        }
        let free = match stream.put_away(&mut |class, count| self.take(class, count))? {
            Leftover::Nothing => None,
            Leftover::Free(place) => Some(place),
            Leftover::Write(place, bytes, old) => {
                self.space.write_blocks(place, &bytes).map_err(failed)?;
                old
            }
        };
        free.map_or(Ok(()), |place| self.space.give_back(place)).map_err(failed)
    }
}
