//! Copying a value from one document to another.

use std::ops::Range;

use abi_stable::std_types::RVec;

use super::{Node, ValueRef, WriteError, Writer, root_index, view::Repr};

impl ValueRef<'_> {
    /// Appends a copy of the value to the two buffers of a document, and returns the index of its root. The nodes of a
    /// document are copied without validation, so the copy of an invalid value may be invalid.
    ///
    /// # Errors
    /// Returns [`WriteError::TooLarge`] if the index of the root would exceed 31 bits. For a
    /// [`Value`](crate::value::Value), returns the errors of [`Writer::finish`]. After an error, nothing is appended.
    pub fn copy_to(self, bytes: &mut RVec<u8>, nodes: &mut RVec<Node>) -> Result<u32, WriteError> {
        self.copy_beside(&(0..0), 0, bytes, nodes)
    }

    /// Appends a copy like [`ValueRef::copy_to`], but does not copy text and data in `known`, a range of the bytes of
    /// this document. The nodes of the copy refer to the same contents at `to`, where the caller has copied the range.
    pub(crate) fn copy_beside(
        self,
        known: &Range<u64>,
        to: u64,
        bytes: &mut RVec<u8>,
        nodes: &mut RVec<Node>,
    ) -> Result<u32, WriteError> {
        let Repr::Flat(subtree) = self.0 else {
            let mut writer = Writer::new(bytes, nodes);
            writer.write_value(self);
            return writer.finish();
        };
        let root = root_index(nodes.len())?;
        let first = nodes.len();
        nodes.extend_from_copy_slice(subtree.nodes());
        // The text of consecutive nodes is usually contiguous. Contiguous text is appended in one step, and the offsets
        // of its nodes change by the same distance.
        let mut run = 0..0;
        let mut distance = bytes.len() as u64;
        for node in nodes.iter_mut().skip(first) {
            if !node.kind().has_data() {
                continue;
            }
            let offset = node.payload();
            let end = offset.saturating_add(node.len().into());
            if known.start <= offset && end <= known.end {
                *node = node.moved_to(offset - known.start + to);
                continue;
            }
            if offset != run.end {
                subtree.append_bytes(run, bytes);
                run = offset..offset;
                distance = (bytes.len() as u64).wrapping_sub(offset);
            }
            run.end = end;
            *node = node.moved_to(offset.wrapping_add(distance));
        }
        subtree.append_bytes(run, bytes);
        Ok(root)
    }
}

#[cfg(test)]
mod tests {
    use abi_stable::std_types::RVec;

    use super::super::{Document, Node, validate, write};
    use crate::document::ValueRef;
    use crate::literal;

    #[test]
    fn copy_equals_original_in_document_or_tree() {
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

    #[test]
    fn text_that_lies_apart_or_is_shared_is_copied() {
        let bytes = b"cab";
        let text = |offset, len| Node::string(offset, len);
        let nodes = [Node::array(5, 6), text(1, 1), text(2, 1), text(0, 1), text(0, 3), text(0, 3)];
        validate(bytes, &nodes, 0).unwrap();
        let original = Document::new(bytes, &nodes).root(0);
        let (mut to_bytes, mut to_nodes) = (RVec::new(), RVec::new());
        let copy = original.copy_to(&mut to_bytes, &mut to_nodes).unwrap();
        assert_eq!(to_bytes.as_slice(), b"abccabcab");
        assert_eq!(Document::new(&to_bytes, &to_nodes).root(copy), original);
    }

    #[test]
    fn known_text_is_not_copied() {
        let bytes = b"....knowncd..";
        let text = |offset, len| Node::string(offset, len);
        let nodes = [Node::array(4, 5), text(9, 1), text(5, 3), text(10, 1), text(7, 3)];
        let original = Document::new(bytes, &nodes).root(0);
        let (mut to_bytes, mut to_nodes) = (RVec::from_slice(b"-known"), RVec::new());
        let copy = original.copy_beside(&(4..9), 1, &mut to_bytes, &mut to_nodes).unwrap();
        assert_eq!(to_bytes.as_slice(), b"-knowncdwnc");
        assert_eq!(Document::new(&to_bytes, &to_nodes).root(copy), original);
    }

    #[test]
    fn text_outside_of_the_document_stays_outside_of_the_copy() {
        let nodes = [Node::array(3, 4), Node::string(0, 1), Node::string(9, 4), Node::string(1, 1)];
        let original = Document::new(b"ab", &nodes).root(0);
        let (mut to_bytes, mut to_nodes) = (RVec::new(), RVec::new());
        let copy = original.copy_to(&mut to_bytes, &mut to_nodes).unwrap();
        assert_eq!(validate(&to_bytes, &to_nodes, copy).unwrap_err().node, 2);
        assert_eq!(to_bytes.as_slice(), b"ab");
    }
}
