//! The real binary with real plugin libraries: what users type, and what they get to see.

#![allow(clippy::unwrap_used)] // a test that cannot go on says where
#![allow(clippy::print_stderr)] // people read it

#[path = "../support/mod.rs"]
mod support;

mod api;
mod api_peers;
mod bad_input;
mod bad_peers;
mod bench;
mod bombs;
mod book;
mod clients;
mod commands;
mod components;
mod connections;
mod contract;
mod delivery;
mod endless;
mod exec;
mod fair_share;
mod faults;
mod files;
mod flow_tests;
mod flows;
mod formats;
mod gathering;
mod hanging;
mod hostile;
mod http;
mod log_output;
mod logging;
mod many;
mod memory;
mod network;
mod operators;
mod peer;
mod pipes;
mod plugin_codecs;
mod plugin_files;
mod positions;
mod random;
mod references;
mod running;
mod schema;
mod servers;
mod signals;
mod states;
mod streams;
mod supervision;
mod syslog_peers;
mod syslog_tls;
mod telemetry;
mod text;
mod tls;
mod tokio;
mod tremor;
mod verify;
mod waiting;
