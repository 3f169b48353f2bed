//! The event processor.
