//! Memory that peers may read.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bindings::{
    UCP_MEM_ATTR_FIELD_ADDRESS, UCP_MEM_ATTR_FIELD_LENGTH, UCP_MEM_MAP_ALLOCATE, UCP_MEM_MAP_PARAM_FIELD_ADDRESS,
    UCP_MEM_MAP_PARAM_FIELD_FLAGS, UCP_MEM_MAP_PARAM_FIELD_LENGTH, UCS_OK, ucp_mem_h,
};
use crate::context::{Context, Opened};
use crate::error::Error;
use crate::told::Key;

const WORD: usize = size_of::<u64>();

/// Memory that UCX has allocated, and peers with its [`Key`] read without being noticed. It is filled with zeros. Takes its bytes of the machine's
/// memory at once, locked on RDMA.
///
/// It is read and written by words, each of them whole: a peer's read that comes meanwhile may see some words before a change and some after, and has to
/// tell so itself.
pub struct Memory {
    context: Arc<Opened>,
    handle: ucp_mem_h,
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: its words are atomic, and the handle is used by functions that are for several threads.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Bytes that may be asked for: nine tenths of what the machine has available, and what there is room for in the file system of shared memory.
fn available() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib =
        meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse().ok());
    let of_machine = kib.map_or(u64::MAX, |kib: u64| kib.saturating_mul(1024) / 10 * 9);
    let shared = rustix::fs::statvfs("/dev/shm").ok();
    of_machine.min(shared.map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize)))
}

impl Memory {
    /// So many bytes, rounded up to whole words. UCX allocates them itself: it reads what others have allocated with the help of their process.
    /// It would fill the machine's memory to the last byte, and only then fail: so they are asked for only if most of them would be free.
    /// Errors: [`Error::TooMuch`]; [`Error::Failed`] where not so much may be locked (`ulimit -l`).
    pub fn allocate(context: &Context, bytes: usize) -> Result<Memory, Error> {
        let context = context.0.clone();
        let functions = &*context.ucx.functions;
        let words = bytes.div_ceil(WORD).max(1);
        let available = available().min(isize::MAX as u64);
        if words.checked_mul(WORD).is_none_or(|bytes| bytes as u64 > available) {
            return Err(Error::TooMuch { bytes, available });
        }
        // SAFETY: plain numbers and pointers; the mask says which are given.
        let mut params: crate::bindings::ucp_mem_map_params_t = unsafe { MaybeUninit::zeroed().assume_init() };
        let fields = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
        (params.field_mask, params.length, params.flags) = (fields.into(), words * WORD, UCP_MEM_MAP_ALLOCATE);
        let mut handle = ptr::null_mut();
        // SAFETY: an open context, parameters and a place for the handle.
        let status = unsafe { functions.ucp_mem_map(context.handle, &params, &mut handle) };
        if status != UCS_OK {
            return Err(Error::failed(functions, "allocate memory for peers (is ulimit -l enough?)", status.into()));
        }
        // SAFETY: plain numbers and pointers.
        let mut found: crate::bindings::ucp_mem_attr_t = unsafe { MaybeUninit::zeroed().assume_init() };
        found.field_mask = u64::from(UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH);
        // SAFETY: memory that was just mapped, and a place to write to.
        let status = unsafe { functions.ucp_mem_query(handle, &mut found) };
        let base = NonNull::new(found.address.cast::<AtomicU64>());
        let base = base.filter(|base| status == UCS_OK && found.length >= words * WORD && base.is_aligned());
        let Some(base) = base else {
            // SAFETY: mapped above, and nobody has it.
            unsafe { functions.ucp_mem_unmap(context.handle, handle) };
            return Err(Error::failed(functions, "say where its memory is", status.into()));
        };
        // SAFETY: so many bytes are there, nobody else has them yet, and zeros are words.
        unsafe { base.as_ptr().write_bytes(0, words) };
        Ok(Memory { context, handle, base, words })
    }

    /// Its words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped until `self` is dropped, aligned, and initialised; changed by atomic stores alone, since no peer writes.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// Write bytes, word by word, from a word on; the last word is filled up with zeros. `false`, and nothing is written, if they are more than there is
    /// room.
    pub fn write(&self, from_word: usize, bytes: &[u8]) -> bool {
        let end = from_word.checked_add(bytes.len().div_ceil(WORD));
        let Some(words) = end.and_then(|end| self.words().get(from_word..end)) else { return false };
        for (word, bytes) in words.iter().zip(bytes.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
        true
    }

    /// What peers need to read it. Errors: [`Error::Failed`].
    pub fn key(&self) -> Result<Key, Error> {
        let functions = &*self.context.ucx.functions;
        let (mut packed, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: memory that is mapped, and places to write to.
        let status = unsafe { functions.ucp_rkey_pack(self.context.handle, self.handle, &mut packed, &mut bytes) };
        if status != UCS_OK {
            return Err(Error::failed(functions, "make a key for its memory", status.into()));
        }
        // SAFETY: so many bytes at that place, until they are released.
        let copied = unsafe { slice::from_raw_parts(packed.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: packed above, and released once.
        unsafe { functions.ucp_rkey_buffer_release(packed) };
        let (base, memory_bytes) = (self.base.as_ptr() as u64, (self.words * WORD) as u64);
        Ok(Key { version: self.context.ucx.version, base, memory_bytes, bytes: copied })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped when it was made, and unmapped once.
        unsafe { self.context.ucx.functions.ucp_mem_unmap(self.context.handle, self.handle) };
    }
}
