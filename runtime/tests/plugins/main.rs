//! Plugin libraries, from the file to the last call: what is refused, what is loaded, and that
//! nothing a plugin does hurts the host.

#[path = "../support/mod.rs"]
mod support;

mod behaviour;
mod describe;
mod drive;
mod files;
mod loading;
mod registry;
mod toolchains;
mod versions;
