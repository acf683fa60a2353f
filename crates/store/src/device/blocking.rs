//! Requests that the calling thread waits for: opening, formatting and snapshots, never the path of a lookup.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::{Device, Op, Outcome, Request};
use crate::memory::AlignedBuf;

fn wait(device: &dyn Device, request: Request) -> io::Result<Option<AlignedBuf>> {
    let (tell, told) = sync_channel(1);
    device.submit(Op { request, done: Box::new(move |outcome: Outcome| drop(tell.send(outcome))) });
    let outcome = device.clock().receive(&told).map_err(|_| io::Error::other("the device was stopped"))?;
    outcome.result.map(|()| outcome.buffer)
}

/// Read `bytes` from offset `at`. Errors: the device's.
pub fn read(device: &dyn Device, at: u64, bytes: usize) -> io::Result<AlignedBuf> {
    read_into(device, at, AlignedBuf::zeroed(bytes))
}

/// Fill a buffer from offset `at` on. Errors: the device's.
pub fn read_into(device: &dyn Device, at: u64, into: AlignedBuf) -> io::Result<AlignedBuf> {
    let buffer = wait(device, Request::Read { at, into })?;
    buffer.ok_or_else(|| io::Error::other("the device gave no data"))
}

/// Write a whole buffer to offset `at`. Errors: the device's.
pub fn write(device: &dyn Device, at: u64, from: AlignedBuf) -> io::Result<()> {
    let part = 0..from.len();
    wait(device, Request::Write { at, from: Arc::new(from), part }).map(drop)
}

/// Make what was written survive power loss. Errors: the device's.
pub fn sync(device: &dyn Device) -> io::Result<()> {
    wait(device, Request::Sync).map(drop)
}
