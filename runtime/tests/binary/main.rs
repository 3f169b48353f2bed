//! Tests of the real binary with real plugin libraries: commands of users and their output.

#![allow(clippy::unwrap_used)] // a failed test reports its location
#![allow(clippy::print_stderr)] // people read the output

#[allow(dead_code, reason = "the tests of the book use the rest")]
#[path = "../program/peer.rs"]
mod peer;
#[path = "../program/running.rs"]
mod running;
#[path = "../support/mod.rs"]
mod support;
#[path = "../program/tremor.rs"]
mod tremor;

mod api;
mod api_peers;
mod bad_input;
mod bad_peers;
mod bench;
mod bombs;
mod clients;
mod collisions;
mod commands;
mod components;
mod connections;
mod contract;
mod debian;
mod delivery;
mod devlog;
mod endless;
mod exec;
mod executables;
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
mod isolated;
mod log_levels;
mod log_output;
mod logging;
mod many;
mod memory;
mod names;
mod network;
mod operators;
mod overflow;
mod panics;
mod pipes;
mod plugin_codecs;
mod plugin_faults;
mod plugin_files;
mod positions;
mod problems;
mod protocols;
mod proxy_protocol;
mod queues;
mod random;
mod references;
mod reload;
mod reload_clock;
mod reload_confirm;
mod reload_connectors;
mod reload_faults;
mod reload_links;
mod rotated_hosts;
mod servers;
mod signals;
mod states;
mod stored;
mod stored_faults;
mod stored_identity;
mod streams;
mod supervision;
mod syslog_peers;
mod syslog_tls;
mod targets;
mod telemetry;
mod templates;
mod text;
mod tls;
mod tokio;
mod unpulled;
mod verify;
mod waiting;
mod ws_proxy;
