//! Points and positions in the journal.

use std::sync::Arc;

/// A point in the journal from which entries are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The start of the journal.
    Start,
    /// A time, as `journalctl --since` accepts it.
    Since(Arc<str>),
    /// The point after the entry with this cursor.
    Cursor(Arc<str>),
}

/// A point in the journal, and the number of bytes that were read up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) point: Point,
    /// Bytes of entries that the connector has read up to this point. Orders the positions of a connector.
    pub(crate) read: u64,
}
