//! The event processor: finds plugins, checks and loads them, and runs flows with them.

pub mod api;
pub mod clock;
pub mod codec;
pub mod components;
pub mod descriptors;
pub mod engine;
pub mod executor;
pub mod flow;
pub mod flow_test;
mod instance_metrics;
pub mod log;
pub mod memory;
pub mod operator;
pub mod plugin;
pub mod processor;
pub mod redact;
pub mod reloads;
mod renewal;
pub mod run;
mod run_handle;
mod sync;

mod watchdog;

// Only this crate and the expansion of the export macro use the kit's private module.
#[doc(inline)]
pub use tremor_pdk::__private::{dynamic, is_name, linked, parse_size, parse_time};
