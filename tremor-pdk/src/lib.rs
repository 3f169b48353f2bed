//! The plugin development kit.
