//! What the tests of a backend share.

pub mod entries;
pub mod watched;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Medium, Memory, Request};
use tinaja_store::layout::Stamp;
use tinaja_store::{EngineName, Plan, Secret, Tuning};

/// An empty disk.
pub fn blank() -> Medium {
    Medium::zeroed(8 << 20)
}

/// A disk whose requests end at once, as the plan says. What the medium holds outlives the store over it.
pub fn disk(medium: &Medium, plan: impl Fn(u64, &Request) -> Option<Fault> + Send + Sync + 'static) -> Arc<Faulty> {
    Arc::new(Faulty::new(Arc::new(Memory::over(medium)), plan))
}

/// A disk without a fault.
pub fn sound(medium: &Medium) -> Arc<Memory> {
    Arc::new(Memory::over(medium))
}

/// The secret of every backend here.
pub fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}

/// How an engine cuts a disk of so many bytes.
pub fn plan_as(engine: EngineName, disk_bytes: u64) -> Plan {
    let tuning = Tuning { prefetch: Some(false), ..Tuning::default() };
    Plan::new(engine, tuning, disk_bytes, 4096, 4096, Stamp { seed: secret().seed() }).unwrap()
}

/// Poll a future once, with nobody to wake.
pub fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

pub fn is_write(request: &Request) -> bool {
    matches!(request, Request::Write { .. })
}
