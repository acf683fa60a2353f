//! What the end-to-end tests share: the program itself as a process, and what it runs on.
//!
//! Every test owns a scratch directory and its ports; nothing outside loopback is asked for anything.

// Each test program is a crate of its own and uses a part of this.
#![allow(dead_code)]

pub mod home;
pub mod name_server;
pub mod network;
pub mod small_disk;
pub mod tinaja;
