//! Retries: how long to wait and how often to try, and the circuit breakers of sources meanwhile.

pub(crate) mod backoff;
pub(crate) mod breaker;
