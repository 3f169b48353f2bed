//! The event processor.

pub mod codec;
