//! Keys that the reader of flow files knows.

pub(crate) const FLOW: &[&str] = &["name", "plugins", "connectors", "pipelines", "links"];

pub(crate) const CONNECTOR: &[&str] = &[
    "type",
    "codec",
    "preprocessors",
    "postprocessors",
    "config",
    "reconnect",
    "retry",
    "restart",
    "call_limit",
    "hang_limit",
    "isolation",
    "memory",
    "on_failure",
    "in_flight",
    "ordered",
    "batch",
    "pull",
    "queue",
    "err",
    "dead_letters",
];

pub(crate) const PIPELINE: &[&str] = &["operators", "err", "dead_letters"];

/// Keys of a codec, a processor or an operator that is written in full.
pub(crate) const COMPONENT: &[&str] = &["type", "config"];

/// Keys of `reconnect` and `retry`.
pub(crate) const RETRY: &[&str] = &["attempts", "backoff", "max_backoff"];

pub(crate) const BATCH: &[&str] = &["max_events", "max_bytes", "linger"];

pub(crate) const DEAD_LETTERS: &[&str] = &["max_bytes"];

pub(crate) const RESTART: &[&str] = &["attempts", "within"];

pub(crate) const PULL: &[&str] = &["max_events"];

pub(crate) const QUEUE: &[&str] = &["max_events", "max_bytes", "disk", "when_full"];

/// Keys of `queue.disk`.
pub(crate) const DISK: &[&str] = &["path", "max_bytes", "identify"];
