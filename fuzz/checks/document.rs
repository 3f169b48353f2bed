//! Check of documents. For any nodes and bytes, validation accepts the document or reports an error. In both cases,
//! everything that a view reaches can be read, compared, written and copied.

use std::hash::{DefaultHasher, Hash, Hasher};

use tremor_abi::{
    ByteBuffer, NodeBuffer,
    document::{Document, Node, Shape, ValueRef, Writer, read, validate},
    value::{Path, Value},
};
use tremor_runtime::codec::{json, msgpack};

/// Maximum number of nodes. This is enough for every way in which nodes can refer to each other, and keeps the check
/// fast.
const MOST_NODES: usize = 64;

/// Checks one input.
///
/// # Panics
/// Data outside of the document is read, or a part of a valid document is not read.
pub(crate) fn check(data: &[u8]) {
    let Some(([count, root], rest)) = data.split_first_chunk() else { return };
    let count = usize::from(*count).min(MOST_NODES).min(rest.len() / size_of::<Node>());
    let (nodes, bytes) = rest.split_at(count * size_of::<Node>());
    let nodes: Vec<Node> = nodes.chunks_exact(size_of::<Node>()).map(node).collect();
    let root = u32::from(*root);

    let view = Document::new(bytes, &nodes).root(root);
    exhaust(view);
    encode(bytes, &nodes, root);
    match (validate(bytes, &nodes, root), Document::validated(bytes, &nodes, root)) {
        (Ok(()), Ok(trusted)) => {
            exhaust(trusted);
            assert_eq!(trusted, view);
            assert_eq!(trusted.to_string(), view.to_string());
            assert_eq!(kinds(trusted), nodes[root as usize].span(), "every node is read");
            copied(trusted);
        }
        (Err(found), Err(again)) => {
            assert_eq!(found, again);
            assert!(found.node <= nodes.len().max(root as usize), "{found}");
        }
        (validated, view) => panic!("{validated:?} and {view:?}"),
    }
}

fn node(bytes: &[u8]) -> Node {
    let bytes: [u8; size_of::<Node>()] =
        bytes.try_into().expect("the slice has the size of a node");
    // SAFETY: a node consists of three integers without padding, so any bytes are a node.
    unsafe { std::mem::transmute(bytes) }
}

/// Reads everything that the view reaches.
fn exhaust(view: ValueRef<'_>) {
    let copy = view.to_value();
    let same = view;
    assert_eq!(view, same);
    assert_eq!(view.cmp(&copy.view()).reverse(), copy.view().cmp(&view));
    let mut hasher = DefaultHasher::new();
    view.hash(&mut hasher);
    let _ = (hasher.finish(), format!("{view} {view:#} {view:?} {copy:?}"), view.value_type());
    let _ = (view.as_bool(), view.as_i64(), view.as_u64(), view.as_f64(), view.cast_f64());
    let _ = (view.as_str(), view.as_bytes(), view.is_null(), serde_json::to_string(&view));
    let _ = (read::<Value<'_>>(view), read::<Vec<u8>>(view), read::<String>(view));
    for path in ["a", "a.b", "[1]", "a[0].b"] {
        let path: Path = path.parse().expect("a path");
        let _ = view.get_path(&path).map(ValueRef::to_value);
    }
    if let Some(array) = view.as_array() {
        assert!(array.iter().count() <= array.len());
        assert_eq!(array.iter().count(), (0..array.len()).map_while(|at| array.get(at)).count());
    }
    if let Some(object) = view.as_object() {
        assert!(object.iter().count() <= object.len());
        for (key, _) in object {
            assert!(object.get(key).is_some() || view.get(key).is_none());
        }
    }
}

/// Returns the number of nodes that are read, including keys.
fn kinds(view: ValueRef<'_>) -> u64 {
    match view.shape() {
        Shape::Array(array) => 1 + array.iter().map(kinds).sum::<u64>(),
        Shape::Object(object) => 1 + object.iter().map(|(_, value)| 1 + kinds(value)).sum::<u64>(),
        _ => 1,
    }
}

/// Copies a valid document. The copy has to be valid.
fn copied(view: ValueRef<'_>) {
    let (mut bytes, mut nodes) = (ByteBuffer::new(), NodeBuffer::new());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    writer.write_value(view);
    let root = writer.finish().expect("the copy is as deep as the valid document");
    assert_eq!(validate(&bytes, &nodes, root), Ok(()));
}

/// Encodes a document that may be invalid. Encoders must not read outside of the document.
fn encode(bytes: &[u8], nodes: &[Node], root: u32) {
    let mut out = ByteBuffer::from_slice(b"before");
    for sorted_keys in [false, true] {
        let mut json = json::Encoder::new(json::EncodeOptions { sorted_keys, canonical: true });
        if json.document(bytes, nodes, root, &mut out).is_err() {
            assert_eq!(out.as_slice(), b"before", "an error leaves the buffer unchanged");
        }
        out.truncate(b"before".len());
    }
    if msgpack::Encoder::default().document(bytes, nodes, root, &mut out).is_err() {
        assert_eq!(out.as_slice(), b"before", "an error leaves the buffer unchanged");
    }
}
