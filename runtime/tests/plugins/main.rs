//! Plugin libraries, from the file to the last call: what is refused, what is loaded, and that
//! nothing a plugin does hurts the host.

#![allow(clippy::unwrap_used)] // a test that cannot go on says where
#![allow(clippy::print_stderr)] // people read it

#[path = "../support/mod.rs"]
mod support;

mod batches;
mod behaviour;
mod describe;
mod drive;
mod files;
mod kept;
mod loading;
mod opening;
mod registry;
mod toolchains;
mod versions;
