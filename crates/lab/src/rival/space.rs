//! Where everything of the rival lies on its device, and how it is read and written there.

use std::io;
use std::sync::Arc;

use super::blocks::{Blocks, GROUP};
use super::files::{File, Files};
use crate::rig::{PAGE, PageCache};

/// Block files by the sizes of their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Ranks: 36 bytes.
    Ranks,
    /// Entries and the smallest data: 256 bytes.
    Entries,
    /// 1 KiB.
    Small,
    /// 4 KiB.
    Medium,
}

/// Some blocks in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// In which block file.
    pub class: Class,
    /// The first block.
    pub first: u32,
    /// How many.
    pub count: u32,
}

const CLASSES: [Class; 4] = [Class::Ranks, Class::Entries, Class::Small, Class::Medium];
/// A header with a bitmap stands before so many blocks of a block file.
const BLOCKS_A_HEADER: u64 = 64_896;
const HEADER: u64 = 8 << 10;
/// Bytes of the inode of a file.
const INODE: u64 = 256;
const MIB: u64 = 1 << 20;

impl Class {
    /// Bytes of a block.
    pub fn block_bytes(self) -> u64 {
        match self {
            Class::Ranks => 36,
            Class::Entries => 256,
            Class::Small => 1 << 10,
            Class::Medium => 4 << 10,
        }
    }

    /// The class and the count of blocks for data of so many bytes; `None` for what needs a file of its own.
    pub fn for_bytes(bytes: u64) -> Option<(Class, u32)> {
        let most = |class: Class| class.block_bytes() * u64::from(GROUP);
        let class = CLASSES.into_iter().skip(1).find(|class| bytes <= most(*class))?;
        Some((class, bytes.div_ceil(class.block_bytes()).max(1) as u32))
    }
}

/// Bytes of each block file, for a cache of so many bytes.
fn region_bytes(class: Class, bytes: u64) -> u64 {
    let bytes = match class {
        // An entry has a key and a block at the least.
        Class::Ranks => bytes / 256 * 36,
        _ => bytes,
    };
    (bytes + bytes / 64).next_multiple_of(MIB) + MIB
}

fn index_bytes(bytes: u64) -> u64 {
    HEADER + table_len(bytes) * 4
}

/// Cells of the index's table: 64 Ki at the least, and one for 4 KiB.
fn table_len(bytes: u64) -> u64 {
    (bytes / 4096).next_power_of_two().max(1 << 16)
}

fn inode_bytes(bytes: u64) -> u64 {
    (bytes / (16 << 10) + 4096) * INODE
}

/// See [`super::Blockfile::device_bytes`].
pub fn device_bytes(bytes: u64) -> u64 {
    let blocks: u64 = CLASSES.iter().map(|class| region_bytes(*class, bytes)).sum();
    (index_bytes(bytes) + inode_bytes(bytes) + blocks + bytes * 2 + 4 * MIB).next_multiple_of(MIB)
}

/// A region of the device; nothing was ever written at `high` and beyond.
struct Region {
    start: u64,
    high: u64,
}

/// The regions, and what of them is taken.
pub struct Space {
    disk: Arc<PageCache>,
    index: Region,
    inodes: Region,
    blocks: [(Region, Blocks); 4],
    data: Region,
    files: Files,
    free_inodes: Vec<u64>,
    next_inode: u64,
    most_inodes: u64,
    table_len: u64,
}

impl Space {
    /// For a cache of so many bytes.
    pub fn new(disk: Arc<PageCache>, bytes: u64) -> Self {
        let mut at = 0;
        let mut region = |len: u64| {
            let start = at;
            at += len.next_multiple_of(MIB);
            Region { start, high: 0 }
        };
        let (index, inodes) = (region(index_bytes(bytes)), region(inode_bytes(bytes)));
        let blocks = CLASSES.map(|class| {
            let len = region_bytes(class, bytes);
            let file = Blocks::new(len.saturating_sub(HEADER * (len / MIB)) / class.block_bytes());
            (region(len), file)
        });
        let data = region(bytes * 2);
        let (files, table_len) = (Files::new(bytes * 2 / PAGE as u64), table_len(bytes));
        let most_inodes = inode_bytes(bytes) / INODE;
        Space {
            disk,
            index,
            inodes,
            blocks,
            data,
            files,
            free_inodes: Vec::new(),
            next_inode: 0,
            most_inodes,
            table_len,
        }
    }

    fn class(&mut self, class: Class) -> &mut (Region, Blocks) {
        let [ranks, entries, small, medium] = &mut self.blocks;
        match class {
            Class::Ranks => ranks,
            Class::Entries => entries,
            Class::Small => small,
            Class::Medium => medium,
        }
    }

    /// So many blocks, and their bits in the bitmap; `None` if there is no room.
    pub fn take(&mut self, class: Class, count: u32) -> io::Result<Option<BlockRun>> {
        let Some(first) = self.class(class).1.take(count) else { return Ok(None) };
        let place = BlockRun { class, first, count };
        self.mark(place).map(|()| Some(place))
    }

    /// They are free again.
    pub fn give_back(&mut self, place: BlockRun) -> io::Result<()> {
        self.class(place.class).1.give_back(place.first, place.count);
        self.mark(place)
    }

    /// The bitmap's byte for some blocks changes; the header's counters are in its first page.
    fn mark(&mut self, place: BlockRun) -> io::Result<()> {
        let (chunk, within) = (u64::from(place.first) / BLOCKS_A_HEADER, u64::from(place.first) % BLOCKS_A_HEADER);
        let header = chunk * (HEADER + BLOCKS_A_HEADER * place.class.block_bytes());
        let (disk, (region, _)) = (self.disk.clone(), self.class(place.class));
        region.write(&disk, header, &[place.count as u8; 40])?;
        region.write(&disk, header + 80 + within / 8, &[place.first as u8])
    }

    fn at(place: BlockRun) -> u64 {
        let (chunk, within) = (u64::from(place.first) / BLOCKS_A_HEADER, u64::from(place.first) % BLOCKS_A_HEADER);
        let bytes = place.class.block_bytes();
        chunk * (HEADER + BLOCKS_A_HEADER * bytes) + HEADER + within * bytes
    }

    /// Write into blocks, from their beginning.
    pub fn write_blocks(&mut self, place: BlockRun, data: &[u8]) -> io::Result<()> {
        let (disk, (region, _)) = (self.disk.clone(), self.class(place.class));
        region.write(&disk, Space::at(place), data)
    }

    /// Read from blocks.
    pub fn read_blocks(&mut self, place: BlockRun, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let at = self.class(place.class).0.start + Space::at(place) + offset;
        self.disk.read(at, into)
    }

    /// The index's cell of a hash, and the heads and sizes of the lists in its header.
    pub fn write_index(&mut self, cell: Option<u64>, value: u32) -> io::Result<()> {
        self.index.write(&self.disk, 0, &[value as u8; 112])?;
        match cell {
            Some(hash) => self.index.write(&self.disk, HEADER + hash % self.table_len * 4, &value.to_le_bytes()),
            None => Ok(()),
        }
    }

    /// Look into the index's cell of a hash.
    pub fn read_index(&self, hash: u64) -> io::Result<()> {
        let (at, mut cell) = (HEADER + hash % self.table_len * 4, [0; 4]);
        // What is not in the file yet is not read.
        if at < self.index.high { self.disk.read(self.index.start + at, &mut cell) } else { Ok(()) }
    }

    /// A file of its own.
    pub fn make_file(&mut self) -> io::Result<File> {
        let number = self.free_inodes.pop().unwrap_or_else(|| {
            self.next_inode += 1;
            self.next_inode - 1
        });
        self.write_inode(number)?;
        Ok(File { number, ..File::default() })
    }

    /// Make a file so many bytes long at least, and more than that while it grows; whether there was room.
    pub fn grow_file(&mut self, file: &mut File, bytes: u64) -> io::Result<bool> {
        let (pages, had) = (bytes.div_ceil(PAGE as u64), file.pages());
        if pages <= had {
            return Ok(true);
        }
        let grown = self.files.grow(file, pages.max(had * 2)) || self.files.grow(file, pages);
        self.write_inode(file.number).map(|()| grown)
    }

    /// Free what a file has beyond so many bytes.
    pub fn cut_file(&mut self, file: &mut File, bytes: u64) -> io::Result<()> {
        self.files.free_beyond(file, bytes.div_ceil(PAGE as u64));
        self.write_inode(file.number)
    }

    /// The file is gone.
    pub fn drop_file(&mut self, mut file: File) -> io::Result<()> {
        self.cut_file(&mut file, 0)?;
        self.free_inodes.push(file.number);
        Ok(())
    }

    fn write_inode(&mut self, number: u64) -> io::Result<()> {
        // Only files that somebody has open make them more than there is room for; then two share one.
        self.inodes.write(&self.disk, number % self.most_inodes * INODE, &[number as u8; INODE as usize])
    }

    /// Write into a file that is long enough.
    pub fn write_file(&mut self, file: &File, offset: u64, mut data: &[u8]) -> io::Result<()> {
        for (at, len) in file.extents(offset, data.len() as u64, PAGE as u64) {
            let (part, rest) = data.split_at_checked(len as usize).unwrap_or((data, &[]));
            self.data.write(&self.disk, at, part)?;
            data = rest;
        }
        Ok(())
    }

    /// Read from a file.
    pub fn read_file(&self, file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        for (at, len) in file.extents(offset, into.len() as u64, PAGE as u64) {
            let to = filled + len as usize;
            if let Some(part) = into.get_mut(filled..to) {
                self.disk.read(self.data.start + at, part)?;
            }
            filled = to;
        }
        Ok(())
    }

    /// Everything that was written lasts.
    pub fn flush(&self) -> io::Result<()> {
        self.disk.flush()
    }
}

impl Region {
    fn write(&mut self, disk: &PageCache, at: u64, data: &[u8]) -> io::Result<()> {
        let fresh = self.start + self.high.next_multiple_of(PAGE as u64);
        self.high = self.high.max(at + data.len() as u64);
        disk.write(self.start + at, data, fresh)
    }
}
