//! Flows that are loaded and ended, and components that panic and are restarted, again and again in
//! one process, and what the process holds meanwhile: memory, descriptors, threads, libraries.
//!
//! The program `soak` writes it down after each cycle; a test of the runtime runs a few cycles.

mod cycle;
mod heap;
mod sample;

pub use cycle::{Scenario, Soak};
pub use sample::{Sample, settled};
