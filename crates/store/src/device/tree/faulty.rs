//! Files that fail as a plan says.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::{Call, Tree};

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// Nothing is done, and the call fails so.
    Error(ErrorKind),
    /// The first so many bytes of a write arrive, and the call fails as a full disk does.
    Short(usize),
    /// Nothing is done, and the call says that it was.
    Lost,
    /// One bit is flipped on the way, counted from the first and around the end.
    Flipped(usize),
}

type Plan = Box<dyn Fn(u64, &Call<'_>) -> Option<FileFault> + Send + Sync>;

/// A tree whose calls fail where a plan says so. The plan is given the number of the call, from 0, and the call.
pub struct Faulty {
    below: Arc<dyn Tree>,
    plan: Plan,
    calls: AtomicU64,
}

impl Faulty {
    /// This tree, with faults.
    pub fn over(
        below: Arc<dyn Tree>,
        plan: impl Fn(u64, &Call<'_>) -> Option<FileFault> + Send + Sync + 'static,
    ) -> Faulty {
        Faulty { below, plan: Box::new(plan), calls: AtomicU64::new(0) }
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }
}

fn flip(bytes: &mut [u8], bit: usize) {
    let bits = (bytes.len() * 8).max(1);
    if let Some(byte) = bytes.get_mut(bit % bits / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

impl Tree for Faulty {
    fn call(&self, call: Call<'_>) -> io::Result<()> {
        let fault = (self.plan)(self.calls.fetch_add(1, SeqCst), &call);
        match (fault, call) {
            (None, call) => self.below.call(call),
            (Some(FileFault::Error(kind)), _) => Err(kind.into()),
            (Some(FileFault::Lost), Call::Read { into, .. }) => {
                into.fill(0);
                Ok(())
            }
            (Some(FileFault::Lost), _) => Ok(()),
            (Some(FileFault::Short(most)), Call::Write { path, at, bytes }) => {
                let bytes = bytes.get(..most).unwrap_or(bytes);
                self.below.call(Call::Write { path, at, bytes })?;
                Err(ErrorKind::StorageFull.into())
            }
            (Some(FileFault::Short(_)), _) => Err(ErrorKind::UnexpectedEof.into()),
            (Some(FileFault::Flipped(bit)), Call::Read { path, at, into }) => {
                self.below.call(Call::Read { path, at, into })?;
                flip(into, bit);
                Ok(())
            }
            (Some(FileFault::Flipped(bit)), Call::Write { path, at, bytes }) => {
                let mut bytes = bytes.to_vec();
                flip(&mut bytes, bit);
                self.below.call(Call::Write { path, at, bytes: &bytes })
            }
            (Some(FileFault::Flipped(_)), call) => self.below.call(call),
        }
    }

    fn list(&self, each: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        self.below.list(each)
    }
}
