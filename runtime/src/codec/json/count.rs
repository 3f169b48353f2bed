//! Counts the values in a JSON text without parsing it.

/// Returns an upper bound of the number of nodes of a message that is JSON. For any other message, the result is at
/// most the length of the message plus 1.
pub(super) fn nodes(message: &[u8]) -> usize {
    let mut nodes = 1;
    // The last byte outside of strings that is not blank.
    let mut last = 0;
    let mut at = 0;
    while let Some(&byte) = message.get(at) {
        at += 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b'"' => at += string(&message[at..]),
            b',' | b':' | b'[' | b'{' => nodes += 1,
            // The container is empty, so the node that was counted for its first element does not exist.
            b']' if last == b'[' => nodes -= 1,
            b'}' if last == b'{' => nodes -= 1,
            _ => {}
        }
        last = byte;
    }
    nodes
}

/// Returns the length of a string after its opening quote, including the closing quote.
fn string(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match memchr::memchr2(b'"', b'\\', &text[at..]) {
            Some(length) if text[at + length] == b'\\' => at = (at + length + 2).min(text.len()),
            Some(length) => return at + length + 1,
            None => return text.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::nodes;
    use crate::codec::{
        buffer::{Bytes, Nodes, Span},
        json::{DecodeOptions, Decoder},
    };

    #[test]
    fn count_equals_number_of_decoded_nodes() {
        for message in [
            "1",
            "[]",
            " [ ] ",
            "[1]",
            "[[],[],{}]",
            "{}",
            r#"{"a":1,"b":[1,2,{"c":null}]}"#,
            r#"["a,b:[{\\\",[", "\\", 1e5, true]"#,
            "[ 1 , [ [ ] , { \"a\" : { } } ] ]",
        ] {
            let (mut bytes, mut all) = (Bytes::from_slice(message.as_bytes()), Nodes::new());
            let span = Span { start: 0, len: u32::try_from(message.len()).expect("short") };
            Decoder::new(DecodeOptions::default())
                .decode(&mut bytes, span, &mut all)
                .expect(message);
            assert_eq!(nodes(message.as_bytes()), all.len(), "{message}");
        }
    }

    #[test]
    fn invalid_json_is_counted_within_its_length() {
        for message in ["", "\"", "\"\\", "]", "[\"a\\\"", "}{][,,::"] {
            assert!(nodes(message.as_bytes()) <= message.len() + 1, "{message}");
        }
    }
}
