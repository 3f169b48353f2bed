//! Encoding of values to JSON text.

use tremor_abi::document::{Document, MAX_DEPTH, Node, NodeKind, Shape, ValueRef};

use super::scan::{Avx2, Baseline, Scan};
use crate::codec::Error;
use crate::codec::buffer::Bytes;
use crate::codec::output::Output;

/// Options for writing JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// `true` if the keys of each object are sorted by their bytes. Otherwise keys keep their order. Sorting costs an
    /// allocation for each object.
    pub sorted_keys: bool,
    /// `true` if texts that were not edited are encoded too. Otherwise they are copied.
    pub canonical: bool,
}

/// Writes compact JSON. The encoder is reused for every event, to keep its buffer.
///
/// Binary data becomes a string of base64 (the standard alphabet, padded). A float that is not finite is bad data.
#[derive(Debug)]
pub struct Encoder {
    options: EncodeOptions,
    open: Vec<Open>,
    avx2: Option<Avx2>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new(EncodeOptions::default())
    }
}

/// A container whose end was not written yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    left: u32,
    is_object: bool,
}

impl Encoder {
    /// Creates an encoder with an empty buffer.
    pub fn new(options: EncodeOptions) -> Self {
        Self { options, open: Vec::new(), avx2: Avx2::new() }
    }

    /// Returns whether texts that were not edited are copied.
    pub(in crate::codec) const fn copies(&self) -> bool {
        !self.options.canonical && !self.options.sorted_keys
    }

    #[cfg(test)]
    pub(super) fn without_avx2() -> Self {
        Self { options: EncodeOptions::default(), open: Vec::new(), avx2: None }
    }

    /// Appends the value of a document whose root node is `root`.
    ///
    /// The document must come from a decoder or a writer, or must have been validated, because its text is assumed to
    /// be UTF-8. Reads stay within the document, whatever it contains.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if JSON cannot represent the value or the document is invalid; `out` is then
    /// unchanged.
    pub fn document(
        &mut self,
        bytes: &[u8],
        nodes: &[Node],
        root: u32,
        out: &mut Bytes,
    ) -> Result<(), Error> {
        if self.options.sorted_keys {
            return self.value(Document::new(bytes, nodes).root(root), out);
        }
        let nodes = nodes.get(root as usize..).unwrap_or_default();
        restoring(out, |out| match self.avx2 {
            // SAFETY: an `Avx2` exists only if the processor has its instructions.
            Some(avx2) => unsafe { self.nodes_avx2(avx2, bytes, nodes, out) },
            None => self.nodes(Baseline, bytes, nodes, out),
        })
    }

    /// Appends a value of a document or a tree.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if JSON cannot represent the value or it is nested deeper than
    /// [`MAX_DEPTH`]; `out` is then unchanged.
    pub fn value(&mut self, value: ValueRef<'_>, out: &mut Bytes) -> Result<(), Error> {
        restoring(out, |out| tree(value, out, self.options, MAX_DEPTH))
    }

    /// Compiles [`Encoder::nodes`] for [`Avx2`].
    ///
    /// # Safety
    /// The processor must have the instructions of [`Avx2`].
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt"))]
    unsafe fn nodes_avx2(
        &mut self,
        scan: Avx2,
        bytes: &[u8],
        nodes: &[Node],
        out: &mut Output<'_>,
    ) -> Result<(), Error> {
        self.nodes(scan, bytes, nodes, out)
    }

    #[inline(always)]
    fn nodes(
        &mut self,
        scan: impl Scan,
        bytes: &[u8],
        nodes: &[Node],
        out: &mut Output<'_>,
    ) -> Result<(), Error> {
        let mut nodes = nodes.iter();
        let mut now = Open { left: 1, is_object: false };
        self.open.clear();
        loop {
            while now.left > 0 {
                now.left -= 1;
                if now.is_object {
                    let key = nodes.next().ok_or_else(forged)?;
                    if key.kind() != NodeKind::STRING {
                        return Err(forged());
                    }
                    string(scan, bytes, key, b':', out)?;
                }
                let node = nodes.next().ok_or_else(forged)?;
                match node.kind() {
                    NodeKind::STRING => string(scan, bytes, node, b',', out)?,
                    NodeKind::OBJECT | NodeKind::ARRAY => {
                        let is_object = node.kind() == NodeKind::OBJECT;
                        out.word([if is_object { b'{' } else { b'[' }]);
                        self.open.push(now);
                        now = Open { left: node.len(), is_object };
                    }
                    #[allow(clippy::cast_possible_wrap)] // the payload is its two's complement
                    NodeKind::I64 => out.signed(node.payload() as i64),
                    NodeKind::U64 => out.unsigned(node.payload()),
                    NodeKind::BOOL => out.bool(node.payload() != 0),
                    NodeKind::NULL => out.word(*b"null,"),
                    NodeKind::F64 => float(f64::from_bits(node.payload()), out)?,
                    NodeKind::BYTES => {
                        let data = tail(bytes, node).get(..node.len() as usize);
                        out.base64(data.ok_or_else(forged)?);
                    }
                    NodeKind::NUMBER => {
                        let value = Document::new(bytes, std::slice::from_ref(node)).root(0);
                        number(value.as_number_text().ok_or_else(forged)?, out);
                    }
                    _ => return Err(forged()),
                }
            }
            let Some(outer) = self.open.pop() else { return Ok(()) };
            out.close(if now.is_object { b'}' } else { b']' });
            now = outer;
        }
    }
}

/// Calls `write`, which appends a value and a comma, and then removes the comma. After an error, restores `out`.
fn restoring(
    out: &mut Bytes,
    write: impl FnOnce(&mut Output<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let before = out.len();
    let written = write(&mut Output::new(out));
    out.truncate(if written.is_ok() { out.len() - 1 } else { before });
    written
}

#[cold]
fn forged() -> Error {
    Error::bad_data("invalid document: its nodes are inconsistent")
}

#[inline(always)]
fn string(
    scan: impl Scan,
    bytes: &[u8],
    node: &Node,
    behind: u8,
    out: &mut Output<'_>,
) -> Result<(), Error> {
    let is_there = out.string(scan, tail(bytes, node), node.len() as usize, behind);
    if is_there { Ok(()) } else { Err(forged()) }
}

/// Returns the document's bytes, from the first byte of a string or of binary data on.
#[inline]
fn tail<'b>(bytes: &'b [u8], node: &Node) -> &'b [u8] {
    usize::try_from(node.payload()).ok().and_then(|start| bytes.get(start..)).unwrap_or_default()
}

fn float(value: f64, out: &mut Output<'_>) -> Result<(), Error> {
    if !value.is_finite() {
        return Err(Error::bad_data(format!("JSON has no number for {value}")));
    }
    out.float(value);
    Ok(())
}

/// Writes a number that is stored as text, without changing it.
#[cold]
fn number(text: &str, out: &mut Output<'_>) {
    out.number(text);
}

fn tree(
    value: ValueRef<'_>,
    out: &mut Output<'_>,
    options: EncodeOptions,
    depth: usize,
) -> Result<(), Error> {
    let inner = || {
        depth
            .checked_sub(1)
            .ok_or_else(|| Error::bad_data(format!("nested deeper than {MAX_DEPTH} levels")))
    };
    match value.shape() {
        Shape::Null => out.word(*b"null,"),
        Shape::Bool(value) => out.bool(value),
        Shape::I64(value) => out.signed(value),
        Shape::U64(value) => out.unsigned(value),
        Shape::F64(value) => float(value, out)?,
        Shape::Number(text) => number(text, out),
        Shape::String(text) => {
            out.string(Baseline, text.as_bytes(), text.len(), b',');
        }
        Shape::Bytes(data) => out.base64(data),
        Shape::Array(array) => {
            let depth = inner()?;
            out.word([b'[']);
            for element in array {
                tree(element, out, options, depth)?;
            }
            out.close(b']');
        }
        Shape::Object(object) => {
            let depth = inner()?;
            out.word([b'{']);
            let mut pair = |(key, value): (&str, ValueRef<'_>)| {
                out.string(Baseline, key.as_bytes(), key.len(), b':');
                tree(value, out, options, depth)
            };
            if options.sorted_keys {
                let mut pairs: Vec<_> = object.into_iter().collect();
                pairs.sort_by_key(|(key, _)| *key);
                pairs.into_iter().try_for_each(pair)?;
            } else {
                object.into_iter().try_for_each(&mut pair)?;
            }
            out.close(b'}');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
