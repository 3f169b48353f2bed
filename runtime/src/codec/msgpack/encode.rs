//! Encoding of values to MessagePack.

use tremor_abi::document::{Document, MAX_DEPTH, Node, NodeKind, Shape, ValueRef};

use super::extension::{self, Extension};
use crate::codec::Error;
use crate::codec::buffer::Bytes;
use crate::codec::output::Output;

/// Options for writing MessagePack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// `true` if messages that were not edited are encoded too. Otherwise they are copied.
    pub canonical: bool,
}

/// Writes MessagePack. Every value is written in its shortest form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoder {
    options: EncodeOptions,
}

impl Encoder {
    /// Creates an encoder.
    pub const fn new(options: EncodeOptions) -> Self {
        Self { options }
    }

    /// Returns whether messages that were not edited are copied.
    pub(in crate::codec) const fn copies(self) -> bool {
        !self.options.canonical
    }

    /// Appends the value of a document whose root node is `root`.
    ///
    /// The document must come from a decoder or a writer, or must have been validated. Reads stay within the document,
    /// whatever it contains.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the document is invalid; `out` is then unchanged.
    pub fn document(
        &mut self,
        bytes: &[u8],
        nodes: &[Node],
        root: u32,
        out: &mut Bytes,
    ) -> Result<(), Error> {
        let before = out.len();
        let nodes = nodes.get(root as usize..).unwrap_or_default();
        let written = flat(bytes, nodes, &mut Output::new(out));
        if written.is_err() {
            out.truncate(before);
        }
        written
    }

    /// Appends a value of a document or a tree.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if MessagePack cannot represent the value (4 GiB of text, or as many
    /// elements) or it is nested deeper than [`MAX_DEPTH`]; `out` is then unchanged.
    pub fn value(&mut self, value: ValueRef<'_>, out: &mut Bytes) -> Result<(), Error> {
        let before = out.len();
        let written = tree(value, &mut Output::new(out), MAX_DEPTH);
        if written.is_err() {
            out.truncate(before);
        }
        written
    }
}

/// Writes the nodes of a value one after the other, because they have the same order as the encoded bytes.
fn flat(bytes: &[u8], nodes: &[Node], out: &mut Output<'_>) -> Result<(), Error> {
    let forged = || Error::bad_data("invalid document: its nodes are inconsistent");
    let mut rest = nodes;
    let mut left = 1u64;
    while left > 0 {
        let [node, behind @ ..] = rest else { return Err(forged()) };
        rest = behind;
        left -= 1;
        let len = node.len();
        let data = || {
            let start = usize::try_from(node.payload()).ok();
            start.and_then(|start| bytes.get(start..)).unwrap_or_default()
        };
        match node.kind() {
            NodeKind::STRING => {
                if !out.text_value(data(), len) {
                    return Err(forged());
                }
            }
            NodeKind::BYTES => {
                out.binary_head(len);
                if !out.start_of(data(), len as usize) {
                    return Err(forged());
                }
            }
            NodeKind::OBJECT if len == 1 && extension(bytes, rest, out) => {
                rest = rest.get(extension::NODES - 1..).unwrap_or_default();
            }
            NodeKind::OBJECT => {
                out.map_head(len);
                left += u64::from(len) * 2;
            }
            NodeKind::ARRAY => {
                out.array_head(len);
                left += u64::from(len);
            }
            #[allow(clippy::cast_possible_wrap)] // the payload is its two's complement
            NodeKind::I64 => out.signed_integer(node.payload() as i64),
            NodeKind::U64 => out.unsigned_integer(node.payload()),
            NodeKind::F64 => out.double(f64::from_bits(node.payload())),
            NodeKind::BOOL => out.word([0xc2 | u8::from(node.payload() != 0)]),
            NodeKind::NULL => out.word([0xc0]),
            NodeKind::NUMBER => {
                let value = Document::new(bytes, std::slice::from_ref(node)).root(0);
                number(value, out).ok_or_else(forged)?;
            }
            _ => return Err(forged()),
        }
    }
    Ok(())
}

/// Writes a number that is stored as text: as the nearest float, or as text if it exceeds the range of floats. Returns
/// `None` if `value` is not such a number.
fn number(value: ValueRef<'_>, out: &mut Output<'_>) -> Option<()> {
    let text = value.as_number_text()?;
    match value.as_f64() {
        Some(float) => out.double(float),
        None => out.text_value(text.as_bytes(), u32::try_from(text.len()).ok()?).then_some(())?,
    }
    Some(())
}

/// Writes an object of one pair as the extension that the object represents. `pair` contains the nodes of the object
/// after its first node. Returns `false` if the object does not represent an extension.
#[inline]
fn extension(bytes: &[u8], pair: &[Node], out: &mut Output<'_>) -> bool {
    let document = Document::new(bytes, pair);
    let found = document.root(0).as_str().filter(|key| key.starts_with('$')).and_then(|key| {
        // The inner object must have exactly two pairs of one node each, so that the number of nodes to skip is known.
        (pair.get(1)?.span() == 5).then(|| Extension::of(key, document.root(1)))?
    });
    found.map(|found| out.extension(found)).is_some()
}

fn tree(value: ValueRef<'_>, out: &mut Output<'_>, depth: usize) -> Result<(), Error> {
    let inner = || {
        depth
            .checked_sub(1)
            .ok_or_else(|| Error::bad_data(format!("nested deeper than {MAX_DEPTH} levels")))
    };
    let count = |len: usize| {
        u32::try_from(len)
            .map_err(|_| Error::bad_data("a value has more than 4,294,967,295 bytes or elements"))
    };
    match value.shape() {
        Shape::Null => out.word([0xc0]),
        Shape::Bool(value) => out.word([0xc2 | u8::from(value)]),
        Shape::I64(value) => out.signed_integer(value),
        Shape::U64(value) => out.unsigned_integer(value),
        Shape::F64(value) => out.double(value),
        Shape::Number(text) => match value.as_f64() {
            Some(float) => out.double(float),
            None => _ = out.text_value(text.as_bytes(), count(text.len())?),
        },
        Shape::String(text) => {
            out.text_value(text.as_bytes(), count(text.len())?);
        }
        Shape::Bytes(data) => {
            out.binary_head(count(data.len())?);
            out.text(data);
        }
        Shape::Array(array) => {
            let depth = inner()?;
            out.array_head(count(array.len())?);
            for element in array {
                tree(element, out, depth)?;
            }
        }
        Shape::Object(object) => {
            let depth = inner()?;
            if object.len() == 1
                && let Some((key, value)) = object.into_iter().next()
                && let Some(found) = Extension::of(key, value)
            {
                out.extension(found);
                return Ok(());
            }
            out.map_head(count(object.len())?);
            for (key, value) in object {
                out.text_value(key.as_bytes(), count(key.len())?);
                tree(value, out, depth)?;
            }
        }
    }
    Ok(())
}
