//! The event processor: finds plugins, checks them, loads them, runs flows through them.

pub mod api;
pub mod codec;
pub mod components;
pub mod descriptors;
pub mod engine;
pub mod executor;
pub mod flow;
pub mod flow_test;
mod lock;
pub mod log;
pub mod memory;
pub mod operator;
pub mod plugin;
pub mod processor;
pub mod redact;
pub mod run;
mod stop;
pub mod time;
mod watchdog;

// The only names of the kit's private module that this crate uses. The expansion of the export macro refers to them
// as well, so that they have to be in the kit.
#[doc(inline)]
pub use tremor_pdk::__private::{dynamic, linked, parse_size, parse_time};
