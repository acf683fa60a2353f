//! The laboratory: each table and figure of a paper that Tinaja is built from is one [`Experiment`], run with one command.
//!
//! An experiment runs the engines of `tinaja-store` themselves, over devices that keep virtual time, and prints what the
//! paper says, what its model says, what was measured, and why they differ. Only [`peers`] knows HTTP and a network.
//! `tinaja lab NAME` runs one; `tinaja lab all --docs docs/lab` writes the pages there.
//!
//! - [`experiment`]: what an experiment is; [`experiments`]: the list of them;
//! - [`report`] and [`show`]: what came out, as tables, as JSON and as plots;
//! - [`rig`]: an engine over disks that are counted, slowed down by a model, and held in little memory;
//! - [`load`]: requests, generated or read from logs, and the driver that puts them to a rig;
//! - [`policies`]: what leaves a cache that is full, by published policies and by the engine's own, simulated;
//! - [`browser`]: what a browser asks of its cache, as traces in the form of a paper, read, made and prepared;
//! - [`replay`]: such traces put to any backend; [`rival`]: an in-place cache of block files to compare with;
//! - [`peers`]: whole proxies, ours and others, on a disk that the kernel limits;
//! - `resume`: rows of an experiment of hours, kept as soon as they are measured;
//! - [`times`]: how long calls took; [`paper`]: the papers' own figures.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

pub mod browser;
mod error;
pub mod experiment;
pub mod experiments;
pub mod load;
pub mod paper;
pub mod peers;
pub mod policies;
mod progress;
mod random;
pub mod replay;
pub mod report;
mod resume;
pub mod rig;
pub mod rival;
pub mod show;
pub mod times;

pub use error::LabError;
pub use experiment::{DiskPart, Experiment, Needs, ReplayOptions, Setup};
pub use random::Random;
pub use report::Report;
