//! What became of every event: tokens of pulls, and counts of components.

pub(crate) mod deliveries;
pub(crate) mod stats;
pub(crate) mod tap;
pub(crate) mod token;
