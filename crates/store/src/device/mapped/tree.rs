//! A tree with a mapped file.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Once};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::map::Mapping;
use super::segment::{HEADER_BYTES, Segment};
use crate::device::tree::{Call, Tree};

const SCANNED_BYTES: usize = 1 << 20;

/// A tree in which `mapped/...` are segments of a mapped file, and all else lies in the tree below.
pub struct WithMapped {
    below: Arc<dyn Tree>,
    /// `None` where a cache that is only looked at has none.
    mapped: Option<(File, Mapping)>,
    seed: u64,
    /// It was not there, or shorter than asked for.
    was_cut: bool,
    /// Said once, where the kernel forbids to copy out of the mapping.
    forbidden: Once,
}

impl WithMapped {
    /// This tree, and a file of so many bytes; the seed is the store's secret. It is made, and its blocks are allocated, if it is to be changed and is not there or
    /// is shorter. Errors: the system's, as of a full disk.
    pub fn over(below: Arc<dyn Tree>, path: &Path, bytes: u64, seed: u64, read_only: bool) -> io::Result<WithMapped> {
        let (file, was_cut) = match read_only {
            false => WithMapped::allocate(path, bytes)?,
            true => match opened(path, true) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Ok(WithMapped { below, mapped: None, seed, was_cut: true, forbidden: Once::new() });
                }
                file => {
                    let file = file?;
                    let is_short = file.metadata()?.len() < bytes;
                    (file, is_short)
                }
            },
        };
        let most = usize::try_from(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
        let map = Mapping::new(&file, most)?;
        Ok(WithMapped { below, mapped: Some((file, map)), seed, was_cut, forbidden: Once::new() })
    }

    /// Open such a file, made if it is not there, with the blocks of so many bytes, and tell whether it had fewer before. Errors: the
    /// system's.
    pub fn allocate(path: &Path, bytes: u64) -> io::Result<(File, bool)> {
        let file = opened(path, false)?;
        let is_short = file.metadata()?.len() < bytes;
        if is_short {
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                // Where blocks cannot be allocated beforehand they are as they are written.
                Err(Errno::OPNOTSUPP) => file.set_len(bytes)?,
                allocated => allocated?,
            }
        }
        Ok((file, is_short))
    }

    /// Whether a file has no byte of data, as far as its file system says.
    pub fn is_blank(path: &Path) -> bool {
        opened(path, true).is_ok_and(|file| rustix::fs::seek(&file, SeekFrom::Data(0)) == Err(Errno::NXIO))
    }

    /// Whether the file was not there when it was opened, or shorter than asked for.
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Whether all pages that a segment lies on are in memory. False if the kernel does not say.
    pub fn is_resident(&self, segment: Segment) -> bool {
        let page = rustix::param::page_size() as u64;
        let from = segment.offset() - segment.offset() % page;
        let bytes = (segment.offset() + segment.bytes() - from).next_multiple_of(page);
        let (Some((_, map)), Ok(from), Ok(bytes)) = (&self.mapped, usize::try_from(from), usize::try_from(bytes))
        else {
            return false;
        };
        let pages = map.resident(from, bytes);
        !pages.is_empty() && pages.iter().all(|is_there| *is_there)
    }

    /// Bytes of the mapped file that are in memory, as far as the kernel says.
    pub fn resident_bytes(&self) -> u64 {
        let pages = self.mapped.as_ref().map(|(_, map)| map.resident(0, usize::MAX)).unwrap_or_default();
        pages.iter().filter(|is_there| **is_there).count() as u64 * rustix::param::page_size() as u64
    }

    fn read(&self, segment: Segment, at: u64, into: &mut [u8]) -> io::Result<()> {
        let (file, map) = self.mapped.as_ref().ok_or(ErrorKind::NotFound)?;
        let start = usize::try_from(segment.offset()).map_err(|_| ErrorKind::UnexpectedEof)?;
        let from = usize::try_from(at).ok().and_then(|at| at.checked_add(HEADER_BYTES)).filter(|from| *from <= 8192);
        let from = from.ok_or(ErrorKind::UnexpectedEof)?;
        // In one go with the header.
        let mut bytes = vec![0; from + into.len()];
        // What the mapping does not give, as where the kernel forbids to copy so, the file gives, or says why not.
        map.read(start, &mut bytes).or_else(|error| {
            if error.kind() == ErrorKind::PermissionDenied {
                self.forbidden.call_once(|| {
                    tracing::info!(
                        "the kernel forbids to copy out of mapped memory ({error}): the mapped file is read by pread"
                    );
                });
            }
            file.read_exact_at(&mut bytes, segment.offset())
        })?;
        let header = bytes.get(..HEADER_BYTES).unwrap_or_default();
        let (_, used) = Segment::in_header(segment.at, header, self.seed)
            .filter(|(is, _)| *is == segment)
            .ok_or(ErrorKind::NotFound)?;
        if used == 0 {
            return Err(ErrorKind::NotFound.into());
        }
        let there = bytes.get(from..).filter(|_| from + into.len() <= HEADER_BYTES + usize::from(used));
        into.copy_from_slice(there.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, segment: Segment, bytes: &[u8]) -> io::Result<()> {
        let (file, _) = self.mapped.as_ref().ok_or(ErrorKind::NotFound)?;
        let used = u16::try_from(bytes.len()).map_err(|_| ErrorKind::FileTooLarge)?;
        if bytes.len() as u64 + HEADER_BYTES as u64 > segment.bytes() {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut whole = Vec::with_capacity(segment.bytes() as usize);
        whole.extend_from_slice(&segment.header(used, self.seed));
        whole.extend_from_slice(bytes);
        // To its end, as section 2.4.2 has it: what is written one behind the other leaves no gaps, and goes to the disk in one
        // go; and a page that is written whole is not read first.
        whole.resize(segment.bytes() as usize, 0);
        file.write_all_at(&whole, segment.offset())
    }

    fn remove(&self, segment: Segment) -> io::Result<()> {
        let (file, _) = self.mapped.as_ref().ok_or(ErrorKind::NotFound)?;
        file.write_all_at(&segment.header(0, self.seed), segment.offset())
    }

    /// Tell of every segment that is in use. What was never written is passed over. A file with segments of another cache's and none of
    /// this one's is told as `mapped`.
    fn list_segments(&self, each: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        let Some((file, _)) = &self.mapped else { return Ok(()) };
        let (mut ours, mut others) = (0_u64, 0_u64);
        self.list_those_of(file, each, &mut ours, &mut others)?;
        if ours == 0 && others > 0 {
            each("mapped", file.metadata()?.len());
        }
        Ok(())
    }

    fn list_those_of(
        &self,
        file: &File,
        each: &mut dyn FnMut(&str, u64),
        ours: &mut u64,
        others: &mut u64,
    ) -> io::Result<()> {
        let mut chunk = vec![0; SCANNED_BYTES];
        let mut at = 0;
        loop {
            match rustix::fs::seek(file, SeekFrom::Data(at)) {
                Ok(data) => at = at.max(data - data % 512),
                Err(Errno::NXIO) => return Ok(()),
                // Nobody knows where data is.
                Err(Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
            let read = read_up_to(file, &mut chunk, at)?;
            if read < HEADER_BYTES {
                return Ok(());
            }
            let begins = at;
            while let Some(header) = chunk.get(..read).and_then(|read| {
                let from = usize::try_from(at - begins).ok()?;
                read.get(from..from + HEADER_BYTES)
            }) {
                let number = u32::try_from(at / 512).map_err(|_| ErrorKind::FileTooLarge)?;
                let said = Segment::in_header(number, header, self.seed);
                *ours += u64::from(said.is_some());
                *others += u64::from(said.is_none() && Segment::looks_like_one(header));
                // What was a free segment may be cut another way since.
                let taken = said.filter(|(_, used)| *used > 0);
                at += match taken {
                    Some((segment, used)) => {
                        each(&segment.path(), used.into());
                        segment.bytes()
                    }
                    None => 512,
                };
            }
        }
    }
}

fn opened(path: &Path, read_only: bool) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(!read_only).create(!read_only).truncate(false);
    let file = options.mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
}

fn read_up_to(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

impl Tree for WithMapped {
    fn call(&self, call: Call<'_>) -> io::Result<()> {
        let segment = call.path().and_then(Segment::of);
        match (segment, call) {
            (Some(segment), Call::Read { at, into, .. }) => self.read(segment, at, into),
            (Some(segment), Call::Write { at: 0, bytes, .. }) => self.write(segment, bytes),
            (Some(_), Call::Write { .. }) => Err(ErrorKind::FileTooLarge.into()),
            (Some(segment), Call::Remove { .. }) => self.remove(segment),
            (_, Call::Sync) => {
                if let Some((file, _)) = &self.mapped {
                    file.sync_data()?;
                }
                self.below.call(Call::Sync)
            }
            (None, call) | (Some(_), call @ Call::RemoveDirectory { .. }) => self.below.call(call),
        }
    }

    fn list(&self, each: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        self.list_segments(each)?;
        // A file there that is named as a segment is none.
        self.below.list(&mut |path, bytes| match Segment::of(path) {
            Some(_) => each(&format!("./{path}"), bytes),
            None => each(path, bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tree::MemoryTree;

    fn open(path: &Path, read_only: bool) -> WithMapped {
        WithMapped::over(Arc::new(MemoryTree::default()), path, 1 << 20, 7, read_only).unwrap()
    }

    fn listed(tree: &WithMapped) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        tree.list(&mut |path, bytes| found.push((path.to_owned(), bytes))).unwrap();
        found
    }

    #[test]
    fn what_is_written_is_read_until_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mapped");
        let tree = open(&path, false);
        let segments = [(0, 0, 300), (512, 0, 504), (8192, 4, 8184), (16_384, 3, 3000), (20_480, 1, 1)];
        let segments =
            segments.map(|(offset, class, bytes)| (Segment::new(offset, class).unwrap(), vec![class as u8 + 1; bytes]));
        for (segment, bytes) in &segments {
            tree.call(Call::Write { path: &segment.path(), at: 0, bytes }).unwrap();
        }
        for tree in [&tree, &open(&path, false), &open(&path, true)] {
            for (segment, bytes) in &segments {
                let mut into = vec![0; bytes.len()];
                tree.call(Call::Read { path: &segment.path(), at: 0, into: &mut into }).unwrap();
                assert_eq!(&into, bytes);
                let past = tree.call(Call::Read { path: &segment.path(), at: 1, into: &mut into }).unwrap_err();
                assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
            }
            let expected = segments.iter().map(|(segment, bytes)| (segment.path(), bytes.len() as u64));
            assert_eq!(listed(tree), expected.collect::<Vec<_>>());
        }
        let strange = WithMapped::over(Arc::new(MemoryTree::default()), &path, 1 << 20, 8, true).unwrap();
        assert_eq!((listed(&strange), strange.was_cut()), (vec![("mapped".into(), 1 << 20)], false));
        tree.call(Call::Sync).unwrap();
        for (segment, _) in &segments {
            tree.call(Call::Remove { path: &segment.path() }).unwrap();
            let gone = tree.call(Call::Read { path: &segment.path(), at: 0, into: &mut [0] }).unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::NotFound);
        }
        assert!(listed(&tree).is_empty());
        let too_long = tree.call(Call::Write { path: &segments[0].0.path(), at: 0, bytes: &[0; 505] }).unwrap_err();
        assert_eq!(too_long.kind(), ErrorKind::FileTooLarge);
    }

    /// A copy from pages behind the end of a file ends a process by SIGBUS.
    #[test]
    fn a_file_that_is_cut_is_an_error_and_no_signal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mapped");
        let tree = open(&path, false);
        let segment = Segment::new(65_536, 4).unwrap().path();
        tree.call(Call::Write { path: &segment, at: 0, bytes: &[7; 8000] }).unwrap();
        let mut into = [0; 8000];
        tree.call(Call::Read { path: &segment, at: 0, into: &mut into }).unwrap();
        for left in [65_536 + 4096, 65_536, 0] {
            File::options().write(true).open(&path).unwrap().set_len(left).unwrap();
            let cut = tree.call(Call::Read { path: &segment, at: 0, into: &mut into }).unwrap_err();
            assert_eq!(cut.kind(), ErrorKind::UnexpectedEof, "cut to {left}");
        }
    }

    #[test]
    fn what_is_in_memory_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mapped");
        // With holes: what is allocated beforehand is in memory where the file system is.
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let tree = open(&path, false);
        let (first, second) = (Segment::new(0, 4).unwrap(), Segment::new(65_536, 0).unwrap());
        tree.call(Call::Write { path: &first.path(), at: 0, bytes: &[7; 8000] }).unwrap();
        assert!(tree.is_resident(first) && !tree.is_resident(second));
        assert_eq!(tree.resident_bytes(), 8192);
        assert!(!tree.is_resident(Segment::new(4 << 20, 0).unwrap()), "behind its end");
    }

    #[test]
    fn a_link_or_a_directory_in_its_place_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (link, made) = (dir.path().join("link"), dir.path().join("made"));
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        std::fs::create_dir(&made).unwrap();
        for path in [link, made] {
            assert!(WithMapped::over(Arc::new(MemoryTree::default()), &path, 1 << 20, 7, false).is_err());
        }
        assert!(!dir.path().join("elsewhere").exists());
        let none =
            WithMapped::over(Arc::new(MemoryTree::default()), &dir.path().join("none"), 1 << 20, 7, true).unwrap();
        assert!(listed(&none).is_empty() && !dir.path().join("none").exists());
    }
}
