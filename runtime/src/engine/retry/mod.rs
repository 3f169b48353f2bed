//! Retry policies with back-off, and the circuit breakers of sources.

pub(crate) mod backoff;
pub(crate) mod breaker;
