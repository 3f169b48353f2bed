//! Repeatedly loads and ends flows and restarts panicking components in one process, and measures
//! the memory, descriptors, threads and libraries of the process.
//!
//! The program `soak` records a sample after each cycle. A test of the runtime also runs a few cycles.

mod cycle;
mod heap;
mod sample;

pub use cycle::{Scenario, Soak};
pub use sample::{Sample, settled};
