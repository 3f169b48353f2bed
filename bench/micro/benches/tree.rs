//! Trees of values straight from the parser's tape, as a processor without documents would have
//! them.

use simd_json::{Buffers, INPUT_PADDING, Node, StaticNode, Tape, fill_tape_padded};
use tremor_abi::value::{Array, Object, Str, Value};

use crate::events::Messages;

/// The parser and its buffers, used again and again.
pub(crate) struct Parser {
    buffers: Buffers,
    tape: Tape<'static>,
}

impl Parser {
    pub(crate) fn new() -> Self {
        Self { buffers: Buffers::new(0), tape: Tape(Vec::new()) }
    }

    /// A tree of each input that borrows its text from there. The inputs are padded.
    pub(crate) fn borrowed<'i>(&mut self, inputs: &'i mut [Vec<u8>], trees: &mut Vec<Value<'i>>) {
        for input in inputs {
            trees.push(self.tree(input, Str::from));
        }
    }

    /// A tree of each input that owns its text, so that it can go where the input does not.
    pub(crate) fn owned(&mut self, inputs: &mut [Vec<u8>], trees: &mut Vec<Value<'static>>) {
        for input in inputs {
            trees.push(self.tree(input, |text| text.to_owned().into()));
        }
    }

    fn tree<'i, 'v>(
        &mut self,
        input: &'i mut [u8],
        text: impl Fn(&'i str) -> Str<'v> + Copy,
    ) -> Value<'v> {
        let len = input.len() - INPUT_PADDING;
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        fill_tape_padded(input, len, &mut self.buffers, &mut tape).expect("JSON");
        let tree = build(&mut tape.0.iter(), text);
        self.tape = tape.reset();
        tree
    }
}

/// Copies the messages to where they are parsed in place.
pub(crate) fn fill(inputs: &mut Vec<Vec<u8>>, messages: &Messages) {
    inputs.resize_with(messages.len(), Vec::new);
    for (input, message) in inputs.iter_mut().zip(messages) {
        input.clear();
        input.extend_from_slice(message);
        input.resize(message.len() + INPUT_PADDING, 0);
    }
}

fn build<'i, 'v>(
    tape: &mut std::slice::Iter<'_, Node<'i>>,
    text: impl Fn(&'i str) -> Str<'v> + Copy,
) -> Value<'v> {
    match tape.next() {
        None | Some(Node::Static(StaticNode::Null)) => Value::Null,
        Some(Node::Static(StaticNode::Bool(value))) => Value::Bool(*value),
        Some(Node::Static(StaticNode::I64(value))) => Value::I64(*value),
        Some(Node::Static(StaticNode::U64(value))) => Value::U64(*value),
        Some(Node::Static(StaticNode::F64(value))) => Value::F64(*value),
        Some(Node::String(string)) => Value::String(text(string)),
        Some(Node::Array { len, .. }) => {
            let mut array = Array::with_capacity(*len);
            for _ in 0..*len {
                array.push(build(tape, text));
            }
            Value::Array(array)
        }
        Some(Node::Object { len, .. }) => {
            let mut object = Object::with_capacity(*len);
            for _ in 0..*len {
                let Some(Node::String(key)) = tape.next() else { break };
                // A key that comes twice has its last value, as in a document.
                object.insert(text(key), build(tape, text));
            }
            Value::Object(object)
        }
    }
}
