//! Numbers of JSON text: integers of 64 bits, floats, and text for numbers that neither represents exactly.

use tremor_abi::document::{Exact, Node, NodeKind, is_json_number};

use crate::codec::Error;

/// Length of a text in bytes up to which a float without an exponent is exact: 15 digits and a decimal point. Every
/// decimal number of 15 significant digits within the range of normal floats is the shortest form of its float.
pub(super) const SHORT: usize = 16;

/// Maximum length of a number in an error message, in bytes.
const SHOWN: usize = 40;

/// Returns the node of the number `text`, which is at `offset` in the buffer of texts. Returns `None` if the text is not
/// a number as RFC 8259 defines it.
pub(in crate::codec) fn node(text: &[u8], offset: usize) -> Option<Node> {
    let number = std::str::from_utf8(text).ok().filter(|_| is_json_number(text))?;
    // The forms of most numbers are faster to recognise than in general.
    if let Some(integer) = number.parse().ok().filter(|_| number != "-0") {
        return Some(Node::i64(integer));
    }
    if let Some(float) = shortest(number) {
        return Some(Node::f64(float));
    }
    Some(match Exact::new(number)? {
        Exact::I64(integer) => Node::i64(integer),
        Exact::U64(integer) => Node::u64(integer),
        Exact::F64(float) => Node::f64(float),
        Exact::Text(_) => Node::number(offset as u64, u32::try_from(text.len()).ok()?),
    })
}

/// Returns the float whose shortest form is `number`, character by character. Most programs write floats in this form.
fn shortest(number: &str) -> Option<f64> {
    let float =
        if number.contains(['.', 'e']) { number.parse::<f64>().ok()? } else { return None };
    let is_shortest = float.is_finite() && zmij::Buffer::new().format_finite(float) == number;
    is_shortest.then_some(float)
}

/// Returns whether the text of a float is so short that the float is exact.
fn is_short(text: &[u8]) -> bool {
    text.len() <= SHORT && !text.iter().any(|byte| matches!(byte, b'e' | b'E'))
}

/// Returns the end of the number that starts at `start`: the position of the first byte that is not allowed in numbers.
fn end(message: &[u8], start: usize) -> usize {
    let part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    start + message[start..].iter().take_while(|byte| part(byte)).count()
}

/// Iterates over the numbers in a message, outside of strings, with their positions. The message need not be valid
/// JSON; then some of the texts may not be numbers.
struct Numbers<'m> {
    message: &'m [u8],
    at: usize,
}

impl<'m> Iterator for Numbers<'m> {
    type Item = (usize, &'m [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.message.get(self.at)? {
                b'"' => self.at = behind_string(self.message, self.at + 1),
                b'-' | b'0'..=b'9' => {
                    let start = self.at;
                    self.at = end(self.message, start);
                    return Some((start, &self.message[start..self.at]));
                }
                _ => self.at += 1,
            }
        }
    }
}

/// Returns the position after the quotation mark that ends the string whose contents start at `at`.
fn behind_string(message: &[u8], mut at: usize) -> usize {
    while let Some(next) = message.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += next + 1;
        if message[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    message.len()
}

/// Replaces the node of each number whose value a float would change. The new node contains the text of the number.
/// `nodes` are the nodes of the valid message that begins at `start` in the buffer of texts, in the order of the text.
pub(super) fn restore(message: &[u8], start: usize, nodes: &mut [Node]) {
    let is_number =
        |node: &&mut Node| matches!(node.kind(), NodeKind::I64 | NodeKind::U64 | NodeKind::F64);
    let numbers = Numbers { message, at: 0 };
    for ((at, text), slot) in numbers.zip(nodes.iter_mut().filter(is_number)) {
        if !is_short(text)
            && let Some(node) = node(text, start + at)
        {
            *slot = node;
        }
    }
}

/// Overwrites each number that is neither an integer of 64 bits nor a float with a zero and blanks of the same length.
/// Returns whether there was such a number.
pub(super) fn blank(message: &mut [u8]) -> bool {
    let mut at = 0;
    let mut is_changed = false;
    while let Some((start, text)) = (Numbers { message: &*message, at }).next() {
        at = start + text.len();
        if node(text, 0).is_some_and(|node| node.kind() == NodeKind::NUMBER) {
            message[start] = b'0';
            message[start + 1..at].fill(b' ');
            is_changed = true;
        }
    }
    is_changed
}

/// Replaces numbers that are kept as text by the nearest floats. `start` is the position of the message in `bytes`.
///
/// # Errors
/// A number exceeds the range of floats.
pub(super) fn round(bytes: &[u8], start: usize, nodes: &mut [Node]) -> Result<(), Error> {
    for slot in nodes.iter_mut().filter(|node| node.kind() == NodeKind::NUMBER) {
        let at = usize::try_from(slot.payload()).unwrap_or_default();
        let text = bytes.get(at..at + slot.len() as usize).unwrap_or_default();
        let float = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        let float = float.filter(|float| float.is_finite());
        *slot =
            Node::f64(float.ok_or_else(|| error(text, at - start, "does not fit into a float"))?);
    }
    Ok(())
}

/// Returns the error for an invalid number. `at` is the position in the number at which the parser found the error.
pub(super) fn invalid(message: &[u8], at: usize) -> Error {
    let before = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let start = at - message[..at].iter().rev().take_while(before).count();
    error(&message[start..end(message, start)], start, "is not valid")
}

fn error(number: &[u8], at: usize, what: &str) -> Error {
    let shown = String::from_utf8_lossy(&number[..number.len().min(SHOWN)]);
    let more = if number.len() > SHOWN { "…" } else { "" };
    Error::bad_data_at(at, format!("the number {shown}{more} {what}"))
}
