//! The event processor.

pub mod executor;
pub mod flow;
pub mod plugin;
