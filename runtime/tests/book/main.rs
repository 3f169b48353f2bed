//! Tests of what the pages of the book show, with the real binary and real plugin libraries. They are a program of
//! their own, so that a change of a page does not run the other tests of the binary.

#![allow(clippy::unwrap_used)] // a failed test reports its location
#![allow(clippy::print_stderr)] // people read the output

#[allow(dead_code, reason = "other tests of the binary use the rest")]
#[path = "../program/peer.rs"]
mod peer;
#[allow(dead_code, reason = "other tests of the binary use the rest")]
#[path = "../program/running.rs"]
mod running;
#[path = "../support/mod.rs"]
mod support;
#[allow(dead_code, reason = "other tests of the binary use the rest")]
#[path = "../program/tremor.rs"]
mod tremor;

mod cookbook;
mod journald;
mod logrotate;
mod lookup;
mod metadata;
mod multiline;
mod pages;
mod parse;
mod redact;
mod schema;
