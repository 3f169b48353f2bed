//! Tests of plugin libraries, from the search for the file to the last call: which libraries are rejected, how loaded
//! ones behave, and which faults must not affect the host.

#![allow(clippy::unwrap_used)] // a failed test reports its location
#![allow(clippy::print_stderr)] // people read the output

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
