//! Retry policies with back-off, the circuit breakers of sources, and restarts after panics.

pub(crate) mod backoff;
pub(crate) mod breaker;
pub(crate) mod part_restarts;
