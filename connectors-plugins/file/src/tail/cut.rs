//! Division of the bytes that were read into whole messages.

use memchr::memmem;

/// The part of the bytes in the buffer that becomes the events of the pull.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Length of the part in bytes.
    pub(super) length: usize,
    /// `true` if that part ends with a whole message.
    pub(super) is_whole: bool,
}

/// Returns the part of `bytes` for the pull. `is_full` is set if the read filled its buffer, and
/// `is_last` if no more data will follow.
pub(super) fn cut(bytes: &[u8], message_end: &[u8], is_full: bool, is_last: bool) -> Cut {
    if message_end.is_empty() {
        return Cut { length: bytes.len(), is_whole: false };
    }
    if let Some(at) = memmem::rfind(bytes, message_end) {
        return Cut { length: at + message_end.len(), is_whole: true };
    }
    let length = match (is_full, is_last) {
        // The buffer may end with the first bytes of the terminator, which are left for the next
        // pull.
        (true, _) => bytes.len() - (message_end.len() - 1),
        (false, true) => bytes.len(),
        (false, false) => 0,
    };
    Cut { length, is_whole: false }
}

#[cfg(test)]
mod tests {
    use super::{Cut, cut};

    #[test]
    fn pull_ends_with_a_whole_message_if_it_contains_one() {
        let whole = |length| Cut { length, is_whole: true };
        let part = |length| Cut { length, is_whole: false };
        for (bytes, end, is_full, is_last, expected) in [
            ("one\ntwo\nth", "\n", true, false, whole(8)),
            ("one\ntwo\nth", "\n", false, true, whole(8)),
            ("a long one", "\n", true, false, part(10)),
            ("growing", "\n", false, false, part(0)),
            ("the last", "\n", false, true, part(8)),
            ("", "\n", false, true, part(0)),
            ("one\r\ntwo\r", "\r\n", true, false, whole(5)),
            ("a long one\r", "\r\n", true, false, part(10)),
            ("anything", "", false, false, part(8)),
        ] {
            assert_eq!(
                cut(bytes.as_bytes(), end.as_bytes(), is_full, is_last),
                expected,
                "{bytes:?}"
            );
        }
    }
}
