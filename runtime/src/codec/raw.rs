//! Codecs for messages without structure. The whole message is the value.

use tremor_abi::document::{Document, Node, Shape, ValueRef};

use super::Error;
use super::buffer::{self, Bytes, Nodes, Span};
use super::copied::signature_of;
use super::json;

/// Decodes the message at `span` as text, which refers to the original bytes. A UTF-8 signature is not a part of the
/// text.
///
/// # Errors
/// Returns an error of kind "bad data" if the message is not UTF-8.
pub(super) fn decode_string(bytes: &[u8], span: Span, nodes: &mut Nodes) -> Result<u32, Error> {
    let range = buffer::range(span, bytes.len())?;
    let start = range.start as u64;
    let message = &bytes[range];
    std::str::from_utf8(message)
        .map_err(|error| Error::bad_data_at(error.valid_up_to(), "invalid UTF-8"))?;
    let signature = signature_of(message);
    push(nodes, Node::string(start + u64::from(signature), span.len - signature))
}

/// Decodes the message at `span` as binary data, which refers to the original bytes.
pub(super) fn decode_binary(bytes: &[u8], span: Span, nodes: &mut Nodes) -> Result<u32, Error> {
    let range = buffer::range(span, bytes.len())?;
    push(nodes, Node::bytes(range.start as u64, span.len))
}

/// Decodes any message as `null`.
pub(super) fn decode_null(nodes: &mut Nodes) -> Result<u32, Error> {
    push(nodes, Node::null())
}

fn push(nodes: &mut Nodes, node: Node) -> Result<u32, Error> {
    let root = buffer::next_index(nodes, 1)?;
    nodes.push(node);
    Ok(root)
}

/// Appends text unchanged, binary data unchanged if it is UTF-8, and any other value as JSON.
pub(super) fn encode_string(
    json: &mut json::Encoder,
    value: ValueRef<'_>,
    out: &mut Bytes,
) -> Result<(), Error> {
    match value.shape() {
        Shape::String(text) => out.extend_from_copy_slice(text.as_bytes()),
        Shape::Bytes(data) if std::str::from_utf8(data).is_ok() => out.extend_from_copy_slice(data),
        Shape::Bytes(_) => {
            return Err(Error::bad_data("cannot write binary data as text: invalid UTF-8"));
        }
        _ => json.value(value, out)?,
    }
    Ok(())
}

/// Appends text and binary data unchanged; any other value is an error.
pub(super) fn encode_binary(value: ValueRef<'_>, out: &mut Bytes) -> Result<(), Error> {
    match value.shape() {
        Shape::String(text) => out.extend_from_copy_slice(text.as_bytes()),
        Shape::Bytes(data) => out.extend_from_copy_slice(data),
        other => return Err(Error::expected("text or binary data", other)),
    }
    Ok(())
}

/// Appends a truth value or a finite number as text. Returns `false` for any other value.
pub(super) fn append_scalar(value: Shape<'_>, out: &mut Bytes) -> bool {
    let mut append = |text: &str| out.extend_from_copy_slice(text.as_bytes());
    match value {
        Shape::Bool(value) => append(if value { "true" } else { "false" }),
        Shape::I64(number) => append(itoa::Buffer::new().format(number)),
        Shape::U64(number) => append(itoa::Buffer::new().format(number)),
        Shape::F64(number) if number.is_finite() => {
            append(zmij::Buffer::new().format_finite(number));
        }
        Shape::Number(text) => append(text),
        _ => return false,
    }
    true
}

/// Returns the value at `root` of a document. The document must come from a decoder or writer, or must have been
/// validated.
pub(super) fn view<'d>(bytes: &'d [u8], nodes: &'d [Node], root: u32) -> ValueRef<'d> {
    Document::new(bytes, nodes).root(root)
}
