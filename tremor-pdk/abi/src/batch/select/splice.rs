//! Writing a new object from the nodes of an existing object.

use std::ops::Range;

use super::{Branch, Name, Rename, depth::check_depth};
use crate::{
    ByteBuffer, NodeBuffer,
    batch::{append::subtree, fill::narrow},
    document::{Node, NodeKind, equal, fingerprint},
    error::PluginError,
};

/// The remaining pairs of an object.
struct Pairs {
    key: usize,
    end: usize,
    left: u32,
}

impl Pairs {
    /// Returns the position of the next key, and the position after its value.
    fn next(&mut self, nodes: &[Node]) -> Option<(usize, usize)> {
        let (key, value) = (self.key, self.key + 1);
        self.left = self.left.checked_sub(1)?;
        let node = nodes[..self.end].get(value)?;
        let span = usize::try_from(node.span().max(1)).unwrap_or(usize::MAX);
        self.key = value.saturating_add(span).min(self.end);
        Some((key, self.key))
    }
}

/// A writer of new objects from the nodes of existing objects in the same buffers.
pub(in crate::batch) struct Splice<'b> {
    bytes: &'b mut ByteBuffer,
    nodes: &'b mut NodeBuffer,
    /// For each renamed or new field, the range of its nodes. `None` leaves the field unchanged.
    found: &'b mut Vec<Option<Range<usize>>>,
    /// `true` if a field that exists keeps its position when it is replaced. `false` if it becomes the last field of
    /// its object.
    in_place: bool,
    /// `true` if the new object differs from the old one.
    is_changed: bool,
}

/// The treatment of a pair of the old object.
enum Treatment<'b> {
    Copy,
    Omit,
    /// The value is replaced by these nodes.
    Replace(Range<usize>),
    /// The value is an object, from which another object is written.
    Descend(&'b Branch),
    /// The value is replaced by an object with the new fields.
    Create(&'b Branch),
}

impl<'b> Splice<'b> {
    pub(in crate::batch) fn new(
        bytes: &'b mut ByteBuffer,
        nodes: &'b mut NodeBuffer,
        found: &'b mut Vec<Option<Range<usize>>>,
        in_place: bool,
    ) -> Self {
        Self { bytes, nodes, found, in_place, is_changed: false }
    }

    /// Writes the object that `branch` derives from the object at `root`, whose renamed fields are at the paths of
    /// `renames`. Returns the position of the new object, or `None` if the object does not change.
    ///
    /// # Errors
    /// Returns an error of kind "bad data", and writes nothing, if a renamed value would be nested too deeply.
    pub(super) fn renamed(
        self,
        root: usize,
        branch: &Branch,
        renames: &[Rename],
    ) -> Result<Option<usize>, PluginError> {
        self.found.clear();
        for rename in renames {
            let value = rename.from.iter().try_fold(root, |object, name| self.find(object, name));
            let value = value.map(|value| subtree(self.nodes, value));
            if let Some(value) = value.clone().filter(|_| rename.depth > 0) {
                check_depth(&self.nodes[value], rename.depth)?;
            }
            self.found.push(value);
        }
        Ok(self.changed(Some(root), branch))
    }

    /// Writes an object like [`Splice::written`]. Returns `None`, and writes nothing, if it would be the same object.
    pub(super) fn changed(mut self, root: Option<usize>, branch: &Branch) -> Option<usize> {
        let new = self.nodes.len();
        self.object(root, branch);
        if !self.is_changed {
            self.nodes.truncate(new);
        }
        self.is_changed.then_some(new)
    }

    /// Writes the object that `branch` derives from the object at `root`, or from an empty object. Returns the position
    /// of the new object.
    pub(super) fn written(mut self, root: Option<usize>, branch: &Branch) -> usize {
        let new = self.nodes.len();
        self.object(root, branch);
        new
    }

    /// Returns the pairs of an object; empty if `object` is not an object.
    fn pairs(&self, object: usize) -> Pairs {
        let head = self.nodes.get(object).filter(|head| head.kind() == NodeKind::OBJECT);
        let left = head.map_or(0, Node::len);
        Pairs { key: object + 1, end: subtree(self.nodes, object).end, left }
    }

    /// Returns the position of the value of the key `name` in an object.
    fn find(&self, object: usize, name: &Name) -> Option<usize> {
        let mut pairs = self.pairs(object);
        while let Some((key, _)) = pairs.next(self.nodes) {
            if self.is(key, name) {
                return Some(key + 1);
            }
        }
        None
    }

    fn is(&self, key: usize, name: &Name) -> bool {
        let node = self.nodes[key];
        let data = || node.data().and_then(|data| self.bytes.get(data));
        node.word() == name.word && data().is_some_and(|data| equal(data, name.text.as_bytes()))
    }

    /// Returns whether a field that exists in the event, or a new field, is inserted below `branch`.
    fn puts_below(&self, branch: &Branch) -> bool {
        branch.puts.iter().any(|(number, _)| self.found[*number].is_some())
    }

    /// Returns whether the values of two ranges of nodes are the same, and represented in the same way.
    fn are_same(&self, a: Range<usize>, b: Range<usize>) -> bool {
        let is_same = |a: &Node, b: &Node| {
            let data = |node: &Node| node.data().and_then(|data| self.bytes.get(data));
            let has_data = a.kind().has_data();
            a.kind() == b.kind()
                && a.len() == b.len()
                && if has_data { data(a) == data(b) } else { a.payload() == b.payload() }
        };
        a == b
            || a.len() == b.len()
                && self.nodes[a].iter().zip(&self.nodes[b]).all(|(a, b)| is_same(a, b))
    }

    /// Returns whether the object at `old` has an object as the value of `name`, into which fields can be inserted.
    fn is_object(&self, old: Option<usize>, name: &Name) -> bool {
        let value = old.and_then(|old| self.find(old, name));
        value.is_some_and(|value| self.nodes[value].kind() == NodeKind::OBJECT)
    }

    fn copy(&mut self, nodes: Range<usize>) {
        if nodes.is_empty() {
            return;
        }
        let new = self.nodes.len();
        self.nodes.resize(new + nodes.len(), Node::null());
        self.nodes.copy_within(nodes, new);
    }

    fn key(&mut self, name: &Name) {
        let offset = self.bytes.len() as u64;
        self.bytes.extend_from_copy_slice(name.text.as_bytes());
        let len = narrow(name.text.len());
        self.nodes.push(Node::key(offset, len, fingerprint(name.text.as_bytes())));
    }

    /// Returns the treatment of the pair whose key is at `key`.
    fn treatment<'t>(&self, key: usize, branch: &'t Branch) -> Treatment<'t> {
        let copy = |keeps| if keeps { Treatment::Copy } else { Treatment::Omit };
        let child = branch.children.iter().find(|(name, _)| self.is(key, name));
        let Some((_, child)) = child else { return copy(branch.keeps) };
        match child.put.and_then(|field| self.found[field].clone()) {
            Some(found) if self.in_place => Treatment::Replace(found),
            None if child.children.is_empty() => copy(child.keeps),
            None if self.nodes[key + 1].kind() == NodeKind::OBJECT => Treatment::Descend(child),
            None if !self.puts_below(child) => copy(child.keeps),
            None if self.in_place => Treatment::Create(child),
            Some(_) | None => Treatment::Omit,
        }
    }

    /// Writes the object that `branch` derives from the object at `old`, or from an empty object.
    fn object(&mut self, old: Option<usize>, branch: &Branch) {
        let head = self.nodes.len();
        self.nodes.push(Node::object(0, 1));
        let mut len = 0_u32;
        let mut pairs = old.map_or(Pairs { key: 0, end: 0, left: 0 }, |old| self.pairs(old));
        // Adjacent pairs are copied in one step.
        let mut run = 0..0;
        while let Some((key, behind)) = pairs.next(self.nodes) {
            let treatment = self.treatment(key, branch);
            if let Treatment::Copy = treatment {
                if run.end != key {
                    self.copy(run);
                    run = key..key;
                }
                run.end = behind;
                len += 1;
                continue;
            }
            self.copy(std::mem::replace(&mut run, 0..0));
            match treatment {
                Treatment::Copy | Treatment::Omit => {
                    self.is_changed = true;
                    continue;
                }
                Treatment::Replace(found) => {
                    self.is_changed |= !self.are_same(found.clone(), key + 1..behind);
                    self.copy(key..key + 1);
                    self.copy(found);
                }
                Treatment::Create(child) => {
                    self.is_changed = true;
                    self.copy(key..key + 1);
                    self.object(None, child);
                }
                Treatment::Descend(child) => {
                    let before = self.nodes.len();
                    self.copy(key..key + 1);
                    self.object(Some(key + 1), child);
                    // An object of which only some fields are kept is removed if it has none of these fields.
                    if !child.keeps && self.nodes[before + 1].is_empty() {
                        self.nodes.truncate(before);
                        self.is_changed = true;
                        continue;
                    }
                }
            }
            len += 1;
        }
        self.copy(run);
        for (position, (number, index)) in branch.puts.iter().enumerate() {
            let Some(found) = self.found[*number].clone() else { continue };
            let (name, child) = &branch.children[*index];
            // Only the first field in a new object creates this object.
            let mut earlier = branch.puts[..position].iter();
            let is_written =
                earlier.any(|(number, other)| other == index && self.found[*number].is_some());
            if is_written || self.in_place && old.is_some_and(|old| self.find(old, name).is_some())
            {
                continue;
            }
            if child.put == Some(*number) {
                self.key(name);
                self.copy(found);
            } else if self.is_object(old, name) {
                continue;
            } else {
                self.key(name);
                self.object(None, child);
            }
            self.is_changed = true;
            len += 1;
        }
        self.nodes[head] = Node::object(len, (self.nodes.len() - head) as u64);
    }
}
