//! Tests of plugin libraries, from the search for the file to the last call: which libraries are rejected, how loaded
//! ones behave, and which faults must not affect the host.

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
