//! Keys of formats without nesting.

use std::ops::Range;

use super::{Error, buffer::Bytes};

/// The keys of a message, which have to differ. Two fields of an event can get the same key, such as `a.b` for
/// `{"a.b": 1, "a": {"b": 2}}`. A receiver would use one of them, and which one depends on the receiver.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Range<usize>>);

impl Keys {
    /// Adds the key that was written at `range` of the output.
    #[inline]
    pub(super) fn add(&mut self, range: Range<usize>) {
        self.0.push(range);
    }

    /// # Errors
    /// A key occurs twice.
    pub(super) fn check(&mut self, out: &Bytes) -> Result<(), Error> {
        let key = |range: &Range<usize>| &out[range.clone()];
        self.0.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        let twice = self.0.windows(2).find(|pair| key(&pair[0]) == key(&pair[1]));
        twice.map_or(Ok(()), |pair| {
            let key = String::from_utf8_lossy(key(&pair[0]));
            let message = format!("expected different keys, found two fields whose key is `{key}`");
            let remedy = "rename or drop one of them with the operator `select`";
            Err(Error::bad_data(message).with_remedy(remedy))
        })
    }
}
