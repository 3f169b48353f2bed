//! The vocabulary of the `about` field.

/// Words of five to six letters on average, as in Latin filler text.
pub(crate) const WORDS: [&str; 64] = [
    "after", "again", "alert", "and", "at", "backend", "backoff", "batch", "before", "behind",
    "buffer", "cache", "channel", "client", "closed", "cluster", "commit", "deadline", "disk",
    "dropped", "during", "election", "expired", "flushed", "for", "from", "gateway", "idle", "in",
    "index", "latency", "leader", "login", "lost", "message", "moved", "node", "of", "offset",
    "on", "open", "peer", "pending", "pool", "proxy", "queue", "quota", "refused", "replica",
    "request", "retry", "route", "segment", "session", "shard", "slow", "snapshot", "socket",
    "stalled", "timeout", "to", "token", "topic", "worker",
];
