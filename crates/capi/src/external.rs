//! Where objects lie on disk, for programs that read it themselves: see `tinaja_store::external`.

use std::os::fd::AsRawFd;
use std::sync::{LazyLock, Mutex, PoisonError};

use tinaja_files::Handle;
use tinaja_files::handles::{Handles, NoSuch};
use tinaja_store::block_on;
use tinaja_store::external::{Index, Object, Part, Read, Step};
use tinaja_store::limits::MAX_TICKETS;

use crate::args::Out;
use crate::cache::{cache, key, no_such};
use crate::error::{Failure, TINAJA_ARGUMENT, TINAJA_FULL, TINAJA_OUTSIDE};
use crate::{args, guard};

/// The object is not there, or no longer there; or what was read is not what was written.
pub const TINAJA_MISSING: i32 = 0;
/// `bytes` bytes are to be read at `offset` of `descriptor`, and handed to `tinaja_verify` with `handle`, a ticket.
pub const TINAJA_READ: i32 = 1;
/// The object was found: `handle` names it, and it has `bytes` bytes.
pub const TINAJA_OBJECT: i32 = 2;
/// Bytes of the object: `handle` names them; there are `bytes` of them, from `offset` in the object on.
pub const TINAJA_PART: i32 = 3;

/// Objects and parts held at once. A part has up to 1.5 MiB, an object that is not in parts 256 KiB.
const MAX_RESULTS: usize = 1024;
/// The kinds of handles that tickets have, and results.
const TICKETS: u8 = 3;
const RESULTS: u8 = 4;

/// What to do next.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tinaja_step {
    /// `TINAJA_MISSING`, `TINAJA_READ`, `TINAJA_OBJECT` or `TINAJA_PART`.
    pub kind: i32,
    /// What to read: the program's to read from and never to close, until its ticket is verified or dropped. Else -1.
    pub descriptor: i32,
    /// A ticket, an object or a part; 0 if there is none. To be dropped, or verified.
    pub handle: i64,
    /// Where to read, or where in the object the part begins.
    pub offset: u64,
    /// How many bytes to read, or there are.
    pub bytes: u64,
    /// What the memory to read into must be aligned to; 1 if any will do. The descriptor may be one of O_DIRECT.
    pub align: u64,
}

type Ticket = Mutex<Option<(Index, Read)>>;

enum Outcome {
    Object(Index, Object),
    Part(Part),
}

static OPEN_TICKETS: LazyLock<Handles<Ticket>> = LazyLock::new(|| Handles::new(TICKETS, MAX_TICKETS));
static OUTCOMES: LazyLock<Handles<Outcome>> = LazyLock::new(|| Handles::new(RESULTS, MAX_RESULTS));

fn full(what: &str, most: usize) -> Failure {
    Failure::new(TINAJA_FULL, format!("{most} {what} are held, which is the limit: drop some with tinaja_drop"))
}

/// Put what came of a step where it can be asked for.
fn tell(index: Index, step: Step) -> Result<tinaja_step, Failure> {
    let nothing = tinaja_step { kind: TINAJA_MISSING, descriptor: -1, handle: 0, offset: 0, bytes: 0, align: 1 };
    let result = |outcome| OUTCOMES.add(outcome).ok_or_else(|| full("objects and parts", MAX_RESULTS));
    Ok(match step {
        Step::Missing => nothing,
        Step::Read(read) => {
            let (descriptor, offset) = (read.descriptor().as_raw_fd(), read.offset());
            let (bytes, align) = (read.bytes() as u64, read.align());
            let ticket =
                OPEN_TICKETS.add(Mutex::new(Some((index, read)))).ok_or_else(|| full("tickets", MAX_TICKETS))?;
            tinaja_step { kind: TINAJA_READ, descriptor, handle: ticket.0, offset, bytes, align }
        }
        Step::Object(object) => {
            let bytes = object.length();
            let handle = result(Outcome::Object(index, object))?.0;
            tinaja_step { kind: TINAJA_OBJECT, handle, bytes, ..nothing }
        }
        Step::Part(part) => {
            let (offset, bytes) = (part.at(), part.length());
            let handle = result(Outcome::Part(part))?.0;
            tinaja_step { kind: TINAJA_PART, handle, offset, bytes, ..nothing }
        }
    })
}

/// Look for an object. Returns 0 and what to do next in `step`, or a code.
///
/// # Safety
/// `key` is null, or `key_bytes` bytes may be read there; `step` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_locate(cache: i64, key: *const u8, key_bytes: usize, step: *mut tinaja_step) -> i32 {
    guard::code(|| {
        // SAFETY: the caller's word.
        let (key, step) = unsafe { (self::key(key, key_bytes)?, Out::to(step, "the step")?) };
        let index = self::cache(cache)?.external();
        let next = block_on(index.locate(&key))?;
        step.put(tell(index, next)?);
        Ok(())
    })
}

/// Hand in what was read for a ticket: all of the bytes that were to be read, and no others. The ticket is used up.
/// Returns 0 and what to do next in `step`, or a code. Bytes that were damaged, or overwritten since, are
/// `TINAJA_MISSING`, unless a newer object is there: then `step` says what to read instead.
///
/// # Safety
/// `bytes` is null, or `count` bytes may be read there; `step` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_verify(ticket: i64, bytes: *const u8, count: usize, step: *mut tinaja_step) -> i32 {
    guard::code(|| {
        // SAFETY: the caller's word.
        let (bytes, step) = unsafe { (args::bytes(bytes, count, "what was read")?, Out::to(step, "the step")?) };
        let (index, read) = take(ticket)?;
        let next = block_on(read.verify(bytes))?;
        step.put(tell(index, next)?);
        Ok(())
    })
}

fn take(ticket: i64) -> Result<(Index, Read), Failure> {
    let handle = Handle(ticket);
    let taken = OPEN_TICKETS.take(handle).map_err(|none| no_such(none, "ticket"))?;
    let taken = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
    taken.ok_or_else(|| no_such(NoSuch::Closed(handle), "ticket"))
}

/// Ask for the bytes of a found object from `at` on: a contiguous run of up to about 1 MiB. Returns 0 and what to do next
/// in `step`, or a code.
///
/// # Safety
/// `step` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_part(object: i64, at: u64, step: *mut tinaja_step) -> i32 {
    guard::code(|| {
        // SAFETY: the caller's word.
        let step = unsafe { Out::to(step, "the step") }?;
        let outcome = OUTCOMES.get(Handle(object)).map_err(|none| no_such(none, "object"))?;
        let Outcome::Object(index, object) = &*outcome else { return Err(another("a part", "an object")) };
        let next = block_on(index.part(object, at))?;
        step.put(tell(index.clone(), next)?);
        Ok(())
    })
}

fn another(is: &str, wanted: &str) -> Failure {
    Failure::new(TINAJA_ARGUMENT, format!("the handle names {is}, but {wanted} is required"))
}

/// Copy the head of a found object to `into`. Returns its length, or a code: `TINAJA_TOO_SMALL` if there is not room for
/// all of it.
///
/// # Safety
/// `into` is null, or `bytes` bytes may be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_object_head(object: i64, into: *mut u8, bytes: usize) -> i64 {
    guard::count(|| {
        // SAFETY: the caller's word.
        let into = unsafe { args::room(into, bytes, "the buffer for the head") }?;
        let outcome = OUTCOMES.get(Handle(object)).map_err(|none| no_such(none, "object"))?;
        let Outcome::Object(_, object) = &*outcome else { return Err(another("a part", "an object")) };
        args::copy_all(object.head(), into, "the head")
    })
}

/// Copy up to `bytes` bytes of a part to `into`, from the part's byte `at` on. Returns how many, 0 at its end, or a code.
///
/// # Safety
/// `into` is null, or `bytes` bytes may be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_copy(part: i64, at: u64, into: *mut u8, bytes: usize) -> i64 {
    guard::count(|| {
        // SAFETY: the caller's word.
        let into = unsafe { args::room(into, bytes, "the buffer to copy to") }?;
        let outcome = OUTCOMES.get(Handle(part)).map_err(|none| no_such(none, "part"))?;
        let Outcome::Part(part) = &*outcome else {
            return Err(another("an object: ask tinaja_part for its bytes", "a part"));
        };
        let length = part.length();
        let outside = || Failure::new(TINAJA_OUTSIDE, format!("byte {at} lies outside a part of {length} bytes"));
        let mut skip = usize::try_from(at).ok().filter(|_| at <= length).ok_or_else(outside)?;
        let (mut rest, mut copied) = (into, 0);
        for piece in part.bytes() {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            let piece = piece.get(skipped..).unwrap_or_default();
            let count = piece.len().min(rest.len());
            let (to, after) = rest.split_at_mut(count);
            to.copy_from_slice(piece.get(..count).unwrap_or_default());
            (rest, copied) = (after, copied + count as u64);
        }
        Ok(copied)
    })
}

/// Let go of a ticket, an object or a part. Returns 0 or a code.
#[unsafe(no_mangle)]
pub extern "C" fn tinaja_drop(handle: i64) -> i32 {
    guard::code(|| {
        if let Ok(outcome) = OUTCOMES.take(Handle(handle)) {
            drop(outcome);
            return Ok(());
        }
        match OPEN_TICKETS.take(Handle(handle)) {
            Ok(ticket) => drop(ticket),
            Err(of_tickets) => {
                let of_outcomes = OUTCOMES.get(Handle(handle)).err();
                let closed = |none| matches!(none, NoSuch::Closed(_));
                return Err(no_such(
                    of_outcomes.filter(|none| closed(*none)).unwrap_or(of_tickets),
                    "ticket, object or part",
                ));
            }
        }
        Ok(())
    })
}
