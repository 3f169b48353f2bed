//! The event processor.

pub mod plugin;
