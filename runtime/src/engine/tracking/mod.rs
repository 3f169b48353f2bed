//! The outcome of every event: tokens that follow the events of each pull of a source, and counters of each component.

pub(crate) mod deliveries;
pub(crate) mod stats;
pub(crate) mod stored;
pub(crate) mod tap;
pub(crate) mod token;
