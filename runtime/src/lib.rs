//! The event processor.

mod executor;
pub mod flow;
pub mod plugin;
