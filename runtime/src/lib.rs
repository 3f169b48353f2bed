//! The event processor: finds plugins, checks them, loads them, runs flows through them.

pub mod api;
pub mod codec;
pub mod components;
pub mod descriptors;
pub mod engine;
pub mod executor;
pub mod flow;
pub mod flow_test;
mod instance_metrics;
mod lock;
pub mod log;
pub mod memory;
pub mod operator;
pub mod plugin;
pub mod processor;
pub mod redact;
pub mod run;
mod run_handle;
pub mod time;
mod watchdog;

// The kit's private module has no other users than this crate and the expansion of the export macro.
#[doc(inline)]
pub use tremor_pdk::__private::{dynamic, linked, parse_size, parse_time};
