//! The `null` connector.
