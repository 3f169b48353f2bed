//! Terminators: the bytes that end each message of a sink, such as the line feed of the postprocessor `lines`.

use memchr::{memchr, memmem};
use tremor_abi::batch::{HostBatch, Rejected};
use tremor_pdk::{Batch, Error};

use super::Bytes;

/// The bytes that postprocessors append to every message of a sink. A receiver searches for them to find the end of a
/// message. A message that contains them is rejected, because otherwise the author of its data could forge further
/// messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terminator {
    bytes: Vec<u8>,
    /// The suffixes that the postprocessors append, none of them empty. A receiver may search for any of them.
    parts: Vec<Part>,
    /// Suffixes that later postprocessors append, after others have changed the message.
    later: Vec<Part>,
    /// `true` if a later postprocessor changes the message.
    is_followed: bool,
}

#[derive(Clone, Debug)]
struct Part {
    /// Name of the postprocessor in flow files.
    name: String,
    bytes: Vec<u8>,
}

impl Terminator {
    /// Appends the suffix of the postprocessor `name`.
    pub(crate) fn push(&mut self, name: &str, suffix: &[u8]) {
        if !suffix.is_empty() {
            self.bytes.extend_from_slice(suffix);
            self.parts.push(Part { name: name.to_owned(), bytes: suffix.to_owned() });
        }
    }

    /// Records that the postprocessor `name` appends a suffix after other postprocessors have changed the message.
    pub(crate) fn push_later(&mut self, name: &str, suffix: &[u8]) {
        if !suffix.is_empty() {
            self.later.push(Part { name: name.to_owned(), bytes: suffix.to_owned() });
        }
    }

    /// Records that a later postprocessor changes the messages.
    pub(crate) const fn set_followed(&mut self) {
        self.is_followed = true;
    }

    /// Returns whether the suffixes consist of line feeds and carriage returns, so that they are not in a text without
    /// line breaks.
    #[inline]
    pub(super) fn is_of_line_breaks(&self) -> bool {
        let mut parts = self.parts.iter().chain(&self.later);
        parts.all(|part| part.bytes.iter().all(|byte| matches!(byte, b'\n' | b'\r')))
    }

    /// Returns whether no later postprocessor changes the messages.
    pub(super) const fn is_last(&self) -> bool {
        !self.is_followed
    }

    /// Returns whether the message contains no suffix that a postprocessor appends, so that it can be copied instead of
    /// encoded. The encoded message may fit where the copy does not, because it contains no line feeds.
    #[inline]
    pub(super) fn fits(&self, message: &[u8]) -> bool {
        self.parts.iter().chain(&self.later).all(|part| part.find(message).is_none())
    }

    /// Returns the bytes that are appended to a message.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends the terminator to an encoded message. Most sinks of messages have no terminator, and then nothing is
    /// called for their events.
    #[inline]
    pub(super) fn append_to(&self, out: &mut Bytes) {
        if !self.bytes.is_empty() {
            out.extend_from_copy_slice(&self.bytes);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns whether each part contains a control character below the space. Formats such as JSON always escape these
    /// characters.
    pub(super) fn has_control_characters(&self) -> bool {
        self.parts.iter().all(|part| part.bytes.iter().any(|byte| *byte < b' '))
    }

    /// Checks that a receiver finds the end of `message` at the appended terminator, and not earlier.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the message contains one of the parts.
    pub(crate) fn check(&self, message: &[u8]) -> Result<(), Error> {
        self.parts.iter().try_for_each(|part| match part.find(message) {
            None => Ok(()),
            Some(position) => Err(part.error(position)),
        })
    }

    /// Appends the terminator to the messages of `encoded`, which correspond to the events of `batch` in order.
    /// Messages that contain a part of the terminator are removed from both batches, and their events are returned.
    pub(crate) fn append(&self, encoded: &mut Batch, batch: &mut Batch) -> Vec<Rejected> {
        if self.is_empty() {
            return Vec::new();
        }
        let check = |event| self.check(encoded.raw(event).unwrap_or_default()).err();
        let mut rejected = if encoded.events().iter().any(|event| check(event).is_some()) {
            let errors: Vec<Option<Error>> = encoded.events().iter().map(check).collect();
            take_out(encoded, batch, errors)
        } else {
            Vec::new()
        };
        let refused = encoded.cut(|cutter| cutter.emit_followed(&self.bytes));
        // The batch is too large for the terminators. All of it is rejected, so that messages still match their events.
        if let Some(Rejected { error, .. }) = refused.into_iter().next() {
            encoded.retain(|_| false);
            batch.retain(|event| {
                rejected.push(Rejected { event: event.into(), error: error.clone() });
                false
            });
        }
        rejected
    }
}

#[cold]
fn take_out(encoded: &mut Batch, batch: &mut Batch, errors: Vec<Option<Error>>) -> Vec<Rejected> {
    let mut rejected = Vec::new();
    let mut left = errors.iter();
    encoded.retain(|_| left.next().is_none_or(Option::is_none));
    let mut errors = errors.into_iter();
    batch.retain(|event| match errors.next().flatten() {
        Some(error) => {
            rejected.push(Rejected { event: event.into(), error });
            false
        }
        None => true,
    });
    rejected
}

impl Part {
    /// Returns the first position before the end of `message` at which a receiver would find these bytes.
    fn find(&self, message: &[u8]) -> Option<usize> {
        if let [byte] = self.bytes[..] {
            return memchr(byte, message);
        }
        // The end of the message and the beginning of the terminator may together form these bytes, for example if a
        // message ends with `-` and the terminator is `--`.
        let overlaps = (1..self.bytes.len()).rev().find(|length| {
            let (first, last) = (&self.bytes[..*length], &self.bytes[*length..]);
            message.ends_with(first) && self.bytes.starts_with(last)
        });
        memmem::find(message, &self.bytes).or_else(|| overlaps.map(|length| message.len() - length))
    }

    #[cold]
    fn error(&self, position: usize) -> Error {
        let what = match &self.bytes[..] {
            b"\n" => "a line feed".to_owned(),
            other => format!("`{}`", other.escape_ascii()),
        };
        Error::bad_data(format_args!(
            "cannot end the message with `{name}`: it contains {what} at byte {position}, after which a \
             receiver would read another message; replace {what} in an operator, or use the postprocessor \
             `length-prefixed`",
            name = self.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Terminator, memmem};

    fn terminator(parts: &[&[u8]]) -> Terminator {
        let mut terminator = Terminator::default();
        parts.iter().for_each(|part| terminator.push("end", part));
        terminator
    }

    #[test]
    fn message_with_the_terminator_is_rejected_at_its_position() {
        let both = terminator(&[b"\r", b"\n"]);
        assert_eq!(both.bytes(), b"\r\n");
        for (terminator, message, position) in [
            (&terminator(&[b"\n"]), "ab\nc", Some(2)),
            (&terminator(&[b"\n"]), "abc\n", Some(3)),
            (&terminator(&[b"\n"]), "ab\rc", None),
            (&both, "ab\nc", Some(2)),
            (&both, "a\rbc", Some(1)),
            (&terminator(&[b"\r\n"]), "a\rb\n", None),
            (&terminator(&[b"\r\n"]), "a\r\nb", Some(1)),
            (&terminator(&[b"--"]), "a-b", None),
            (&terminator(&[b"--"]), "ab-", Some(2)),
            (&terminator(&[b""]), "a", None),
        ] {
            let error = terminator.check(message.as_bytes()).err().map(|error| error.to_string());
            let expected = position.map(|position| format!(" at byte {position}, "));
            match (&error, &expected) {
                (None, None) => {}
                (Some(error), Some(expected)) if error.contains(expected) => {}
                _ => panic!("{message:?}: {error:?}, not {expected:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn accepted_message_ends_where_it_was_terminated(
            message in "[ab]{0,8}",
            suffix in "[ab]{1,4}",
        ) {
            let accepted = terminator(&[suffix.as_bytes()]).check(message.as_bytes()).is_ok();
            let framed = format!("{message}{suffix}");
            let end = memmem::find(framed.as_bytes(), suffix.as_bytes());
            prop_assert_eq!(accepted, end == Some(message.len()));
        }
    }
}
