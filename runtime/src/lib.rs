//! The event processor.

pub mod flow;
