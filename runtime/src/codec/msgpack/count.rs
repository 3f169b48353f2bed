//! Counts the nodes of a message without decoding it.

use super::{
    extension,
    reader::{Head, Reader},
};

/// Returns the number of nodes of a message. If the message is not valid MessagePack, returns the number of nodes
/// before the first error.
pub(super) fn nodes(message: &[u8]) -> usize {
    let mut reader = Reader::new(message);
    let mut nodes = 0;
    while let Ok(head) = reader.head() {
        let (of_head, content) = match head {
            Head::String(len) | Head::Binary(len) => (1, len),
            Head::Extension(_, len) => (extension::NODES, len),
            _ => (1, 0),
        };
        nodes += of_head;
        if reader.take(content).is_err() {
            break;
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::nodes;
    use crate::codec::{
        buffer::{Bytes, Nodes, Span},
        msgpack::{DecodeOptions, Decoder},
    };

    #[test]
    fn count_equals_number_of_decoded_nodes() {
        for message in [
            &b"\x01"[..],
            b"\xa3abc",
            b"\xc4\x02ab",
            b"\x90",
            b"\x93\x01\xc0\xcb12345678",
            b"\x82\xa1a\x01\xa1b\x92\x81\xa0\x90\xc3",
            b"\x92\xd4\x05x\xd6\xff\0\0\0\x01",
        ] {
            let (mut bytes, mut all) = (Bytes::from_slice(message), Nodes::new());
            let span = Span { start: 0, len: u32::try_from(message.len()).expect("short") };
            let decoded = Decoder::new(DecodeOptions::default()).decode(&mut bytes, span, &mut all);
            decoded.expect("a message");
            assert_eq!(nodes(message), all.len(), "{message:?}");
        }
    }

    /// The messages have no extension, which has more nodes than bytes.
    #[test]
    fn invalid_message_has_at_most_one_node_per_byte() {
        for message in [&b""[..], b"\xc1", b"\x93\x01", b"\xdd\xff\xff\xff\xff", b"\xa5a"] {
            assert!(nodes(message) <= message.len(), "{message:?}");
        }
    }
}
