//! Copying a value from one document to another.

use abi_stable::std_types::RVec;

use super::{Node, ValueRef, WriteError, Writer, view::Repr};

impl ValueRef<'_> {
    /// Appends a copy to the two buffers of a document and returns the index of its root. A part of
    /// a document is copied node by node and neither read nor checked: what was wrong with it is
    /// wrong with the copy.
    ///
    /// # Errors
    /// Too large, where the document's offsets end; for values that lie in a tree, those of
    /// [`Writer::finish`]. Nothing is appended then.
    pub fn copy_to(self, bytes: &mut RVec<u8>, nodes: &mut RVec<Node>) -> Result<u32, WriteError> {
        let Repr::Flat(subtree) = self.0 else {
            let mut writer = Writer::new(bytes, nodes);
            writer.write_value(self);
            return writer.finish();
        };
        let root = u32::try_from(nodes.len()).map_err(|_| WriteError::TooLarge)?;
        nodes.reserve(subtree.nodes().len());
        for node in subtree.nodes() {
            let copy = match node.kind() {
                kind if kind.has_data() => {
                    let offset = bytes.len() as u64;
                    bytes.extend_from_copy_slice(subtree.data(*node).unwrap_or_default());
                    node.moved_to(offset)
                }
                _ => *node,
            };
            nodes.push(copy);
        }
        Ok(root)
    }
}

#[cfg(test)]
mod tests {
    use abi_stable::std_types::RVec;

    use super::super::{Document, validate, write};
    use crate::document::ValueRef;
    use crate::literal;

    #[test]
    fn a_copy_equals_the_original_wherever_that_lies() {
        let tree = literal!({ "a": { "b": ["text", 1, null, 1.5] }, "c": "more text" });
        let (mut bytes, mut nodes) = (RVec::from_slice(b"before"), RVec::new());
        let root = write(&tree, &mut bytes, &mut nodes).unwrap();
        let flat = Document::new(&bytes, &nodes).root(root);
        let part = flat.get("a").unwrap();

        let (mut to_bytes, mut to_nodes) = (RVec::from_slice(b"x"), RVec::new());
        for original in [flat, part, ValueRef::from(&tree)] {
            let copy = original.copy_to(&mut to_bytes, &mut to_nodes).unwrap();
            validate(&to_bytes, &to_nodes, copy).unwrap();
            assert_eq!(Document::new(&to_bytes, &to_nodes).root(copy), original);
        }
    }
}
