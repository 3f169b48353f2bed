//! Clients that load a server and measure the results.

pub(crate) mod busy;
pub(crate) mod idle;
pub(crate) mod latency;
pub(crate) mod requests;
pub(crate) mod send;
pub(crate) mod shares;
pub(crate) mod trickle;
