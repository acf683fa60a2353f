//! What the tests of a backend share.

pub mod entries;
pub mod watched;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Device, Medium, Memory, Request};
use tinaja_store::engine::Engine;
use tinaja_store::engine::registry::{Ask, Opening};
use tinaja_store::layout::Stamp;
use tinaja_store::{EngineRef, Secret, Settings};

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

/// An engine over the whole of a disk; `Err` when that cannot even be read.
pub fn open_as(engine: EngineRef, disk: Arc<dyn Device>) -> Result<Arc<dyn Engine>, String> {
    let (bytes, stamp, settings) = (disk.geometry().bytes, Stamp { seed: secret().seed() }, Settings::new());
    let ask = Ask { bytes, reserved: 4096, mean_object_bytes: 4096, stamp, settings: &settings };
    engine.cut(&ask).unwrap().open(Opening::of(disk))
}

/// Poll a future once, with nobody to wake.
pub fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

pub fn is_write(request: &Request) -> bool {
    matches!(request, Request::Write { .. })
}
