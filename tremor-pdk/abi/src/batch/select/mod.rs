//! Keeping, dropping and renaming fields without copying what they hold.

use std::ops::Range;

use super::{Batch, PayloadKind, Span, append::subtree, fill::narrow};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Key, Node, NodeKind, ValueRef, Writer, equal, fingerprint},
    error::PluginError,
    value::Path,
};

/// Which fields of an object stay, and what they are called, compiled once. Fields are named by the
/// keys that lead to them.
///
/// First comes what is kept, then what is dropped out of that, then what is renamed. A field that
/// is renamed is taken from the event as it came, whether or not it was kept; it takes the place of
/// a field of its new name, and stands last in its object.
///
/// Applied to a document, it copies 16-byte nodes and no text: see [`EventMut::select`](super::EventMut::select).
#[derive(Clone, Debug)]
pub struct Selection {
    root: Branch,
    renames: Vec<Names>,
    /// The nodes of the renamed fields, in the event at hand.
    found: Vec<Option<Range<usize>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    text: Box<str>,
    word: u64,
}

/// What becomes of a place in an object.
#[derive(Clone, Debug)]
struct Branch {
    /// Whether what no child names stays.
    keeps: bool,
    children: Vec<(Name, Branch)>,
    /// The renamed field that is put here.
    put: Option<usize>,
    /// Whether a renamed field is put somewhere below.
    puts_below: bool,
}

/// What is wrong with a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionError(String);

impl std::fmt::Display for SelectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SelectionError {}

type Names = Vec<Name>;

fn names(path: &Path) -> Result<Names, SelectionError> {
    let keys = path.keys().filter(|keys| !keys.is_empty()).ok_or_else(|| {
        let place = if path.keys().is_some() { "the whole event" } else { "an array's element" };
        SelectionError(format!("`{path}`: expected the keys of a field, found {place}"))
    })?;
    let name = |key: &str| Name { word: Key::word_of(key), text: key.into() };
    Ok(keys.into_iter().map(name).collect())
}

impl Branch {
    fn new(keeps: bool) -> Self {
        Self { keeps, children: Vec::new(), put: None, puts_below: false }
    }

    fn child(&mut self, name: &Name) -> &mut Self {
        let known = self.children.iter().position(|(other, _)| other.text == name.text);
        let position = known.unwrap_or_else(|| {
            self.children.push((name.clone(), Self::new(self.keeps)));
            self.children.len() - 1
        });
        &mut self.children[position].1
    }

    fn set(&mut self, path: &[Name], keeps: bool) {
        let place = path.iter().fold(self, |branch, name| branch.child(name));
        (place.keeps, place.children) = (keeps, Vec::new());
    }

    fn put(&mut self, path: &[Name], rename: usize) {
        let place = path.iter().fold(self, |branch, name| {
            branch.puts_below = true;
            branch.child(name)
        });
        place.put = Some(rename);
    }
}

impl Selection {
    /// Compiles a selection. Without `keep`, everything is kept.
    ///
    /// # Errors
    /// A path that is empty or has an index, or two renamed fields of which one holds the other,
    /// before or after.
    pub fn new(
        keep: Option<&[Path]>,
        drop: &[Path],
        rename: &[(Path, Path)],
    ) -> Result<Self, SelectionError> {
        let all = |paths: &[Path]| paths.iter().map(names).collect::<Result<Vec<_>, _>>();
        let (from, to): (Vec<_>, Vec<_>) = rename.iter().cloned().unzip();
        apart(&from, "are renamed")?;
        apart(&to, "are new names")?;
        let mut kept = all(keep.unwrap_or_default())?;
        let (dropped, from, to) = (all(drop)?, all(&from)?, all(&to)?);
        // What holds another comes last, and so stays whole.
        kept.sort_by_key(|names| std::cmp::Reverse(names.len()));
        let mut root = Branch::new(keep.is_none());
        kept.iter().for_each(|names| root.set(names, true));
        dropped.iter().chain(&from).for_each(|names| root.set(names, false));
        to.iter().enumerate().for_each(|(number, names)| root.put(names, number));
        Ok(Self { root, renames: from, found: Vec::new() })
    }
}

/// Refuses paths of which one leads to a part of what another leads to.
fn apart(paths: &[Path], what: &str) -> Result<(), SelectionError> {
    for (position, a) in paths.iter().enumerate() {
        for b in &paths[..position] {
            let (x, y) = (names(a)?, names(b)?);
            if x.starts_with(&y) || y.starts_with(&x) {
                let message =
                    format!("`{b}` and `{a}` both {what}, and one is a part of the other");
                return Err(SelectionError(message));
            }
        }
    }
    Ok(())
}

impl Batch {
    /// See [`EventMut::select`](super::EventMut::select).
    pub(super) fn select(
        &mut self,
        position: usize,
        selection: &mut Selection,
    ) -> Result<(), PluginError> {
        let event = self.events[position];
        if self.value(&event).and_then(ValueRef::as_object).is_none() {
            let found = self.value(&event).map_or("no value", |value| value.shape().name());
            let message = format_args!("expected an object to select fields of, found {found}");
            return Err(PluginError::bad_data(message));
        }
        let root = match event.kind {
            PayloadKind::VALUE => self.put_back(event.payload.start as usize)?,
            _ => event.payload.start,
        };
        let (bytes, nodes) = self.buffers_mut();
        let root = Splice { bytes, nodes, found: &mut selection.found }.event(
            root as usize,
            &selection.root,
            &selection.renames,
        );
        let event = &mut self.events[position];
        event.kind = PayloadKind::DOCUMENT;
        event.payload = Span { start: narrow(root), len: 0 };
        Ok(())
    }

    /// Writes an edited value into the document; returns its root.
    fn put_back(&mut self, index: usize) -> Result<u32, PluginError> {
        let value = self.values.get_mut(index).map(std::mem::take).unwrap_or_default();
        let (bytes, nodes) = self.buffers_mut();
        let mut writer = Writer::new(bytes, nodes);
        writer.write_value(value.view());
        let written = writer.finish().map_err(PluginError::bad_data);
        if written.is_err() {
            self.values[index] = value;
        }
        written
    }
}

/// The pairs of an object that are still to be seen.
struct Pairs {
    key: usize,
    end: usize,
    left: u32,
}

impl Pairs {
    /// The position of the next key, and that after its value.
    fn next(&mut self, nodes: &[Node]) -> Option<(usize, usize)> {
        let (key, value) = (self.key, self.key + 1);
        self.left = self.left.checked_sub(1)?;
        let node = nodes[..self.end].get(value)?;
        let span = usize::try_from(node.span().max(1)).unwrap_or(usize::MAX);
        self.key = value.saturating_add(span).min(self.end);
        Some((key, self.key))
    }
}

/// Writes a new object from the nodes of an old one in the same buffers.
struct Splice<'b> {
    bytes: &'b mut ByteBuffer,
    nodes: &'b mut NodeBuffer,
    found: &'b mut Vec<Option<Range<usize>>>,
}

impl Splice<'_> {
    fn event(mut self, root: usize, branch: &Branch, renames: &[Names]) -> usize {
        self.found.clear();
        for path in renames {
            let place = path.iter().try_fold(root, |object, name| self.find(object, name));
            self.found.push(place.map(|value| subtree(self.nodes, value)));
        }
        let new = self.nodes.len();
        self.object(Some(root), branch);
        new
    }

    /// The pairs of an object; none where it is no object.
    fn pairs(&self, object: usize) -> Pairs {
        let head = self.nodes.get(object).filter(|head| head.kind() == NodeKind::OBJECT);
        let left = head.map_or(0, Node::len);
        Pairs { key: object + 1, end: subtree(self.nodes, object).end, left }
    }

    /// The position of a key's value in an object.
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

    /// Whether a renamed field that the event has is put below.
    fn puts_below(&self, branch: &Branch) -> bool {
        branch.puts_below
            && branch.children.iter().any(|(_, child)| self.puts(child) || self.puts_below(child))
    }

    fn puts(&self, branch: &Branch) -> bool {
        branch.put.is_some_and(|rename| self.found[rename].is_some())
    }

    /// Whether the old object has an object of this name: then what is put below is put in there.
    fn is_object(&self, old: Option<usize>, name: &Name) -> bool {
        let value = old.and_then(|old| self.find(old, name));
        value.is_some_and(|value| self.nodes[value].kind() == NodeKind::OBJECT)
    }

    fn copy(&mut self, nodes: Range<usize>) -> bool {
        let new = self.nodes.len();
        self.nodes.resize(new + nodes.len(), Node::null());
        self.nodes.copy_within(nodes, new);
        true
    }

    fn key(&mut self, name: &Name) {
        let offset = self.bytes.len() as u64;
        self.bytes.extend_from_copy_slice(name.text.as_bytes());
        let len = narrow(name.text.len());
        self.nodes.push(Node::key(offset, len, fingerprint(name.text.as_bytes())));
    }

    /// Writes the object that a branch makes of an old one, or of none.
    fn object(&mut self, old: Option<usize>, branch: &Branch) {
        let head = self.nodes.len();
        self.nodes.push(Node::object(0, 1));
        let mut len = 0_u32;
        let mut pairs = old.map_or(Pairs { key: 0, end: 0, left: 0 }, |old| self.pairs(old));
        while let Some((key, behind)) = pairs.next(self.nodes) {
            let child = branch.children.iter().find(|(name, _)| self.is(key, name));
            len += u32::from(match child.map(|(_, child)| child) {
                None => branch.keeps && self.copy(key..behind),
                Some(child) if self.puts(child) => false,
                Some(child) if child.children.is_empty() => child.keeps && self.copy(key..behind),
                Some(child) if self.nodes[key + 1].kind() == NodeKind::OBJECT => {
                    let before = self.nodes.len();
                    self.copy(key..key + 1);
                    self.object(Some(key + 1), child);
                    // Nothing of it was there to be kept.
                    let is_void = !child.keeps && self.nodes[before + 1].is_empty();
                    if is_void {
                        self.nodes.truncate(before);
                    }
                    !is_void
                }
                Some(child) => child.keeps && !self.puts_below(child) && self.copy(key..behind),
            });
        }
        for (name, child) in &branch.children {
            if let Some(found) = child.put.and_then(|rename| self.found[rename].clone()) {
                self.key(name);
                self.copy(found);
                len += 1;
            } else if self.puts_below(child) && !self.is_object(old, name) {
                self.key(name);
                self.object(None, child);
                len += 1;
            }
        }
        self.nodes[head] = Node::object(len, (self.nodes.len() - head) as u64);
    }
}

#[cfg(test)]
mod tests;
