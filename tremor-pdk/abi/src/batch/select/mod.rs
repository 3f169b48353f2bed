//! Keeping, dropping, renaming and setting fields without copying the contents of the other fields.

mod depth;
mod edits;
mod insert;
mod splice;
mod texts;

use std::ops::Range;

pub(super) use self::{depth::check_depth, splice::Splice};
pub use self::{
    edits::{Edits, FieldWriter, Part},
    insert::Insertion,
    texts::{Replacement, TextFields},
};
use super::{Batch, fill::narrow};
use crate::{
    document::{Key, ValueRef, Writer},
    error::PluginError,
    value::Path,
};

/// A compiled list of the fields of an object to keep, to drop and to rename. Each field is identified by the path of
/// keys that leads to it.
///
/// A selection first keeps fields, then drops fields of the result, then renames fields. A renamed field is taken from
/// the original event, whether or not it was kept. The renamed field replaces a field that already has the new name,
/// and becomes the last field of its object. Several renamed fields are in the order of the list. An event that has none
/// of the fields to drop and to rename, and only fields to keep, stays unedited.
///
/// Applied to a document, a selection copies 16-byte nodes and no text: see
/// [`EventMut::select`](super::EventMut::select).
#[derive(Clone, Debug)]
pub struct Selection {
    root: Branch,
    renames: Vec<Rename>,
    /// For each renamed field, the range of its nodes in the current event.
    found: Vec<Option<Range<usize>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    text: Box<str>,
    word: u64,
}

/// The treatment of a field and the fields below it.
#[derive(Clone, Debug)]
struct Branch {
    /// `true` if fields that are not in `children` are kept.
    keeps: bool,
    children: Vec<(Name, Branch)>,
    /// Number of the renamed or new field that replaces this field.
    put: Option<usize>,
    /// Numbers of the renamed or new fields that are inserted in this field, at any depth, in ascending order. Each with
    /// the index of the child that contains it.
    puts: Vec<(usize, usize)>,
}

/// A message that describes why a selection is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionError(String);

impl std::fmt::Display for SelectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SelectionError {}

/// Converts the error to one of kind configuration, because paths are parts of a configuration.
impl From<SelectionError> for PluginError {
    fn from(error: SelectionError) -> Self {
        Self::configuration(error)
    }
}

type Names = Vec<Name>;

/// A field that gets a new name.
#[derive(Clone, Debug)]
struct Rename {
    from: Names,
    /// Number of keys of the new path if it has more keys than the old path. Otherwise 0, because the value then cannot
    /// exceed the maximum depth.
    depth: usize,
}

fn names(path: &Path) -> Result<Names, SelectionError> {
    let keys = path.keys().filter(|keys| !keys.is_empty()).ok_or_else(|| {
        let found = if path.keys().is_some() { "the whole event" } else { "an array's element" };
        SelectionError(format!("`{path}`: expected the keys of a field, found {found}"))
    })?;
    let name = |key: &str| Name { word: Key::word_of(key), text: key.into() };
    Ok(keys.into_iter().map(name).collect())
}

impl Branch {
    fn new(keeps: bool) -> Self {
        Self { keeps, children: Vec::new(), put: None, puts: Vec::new() }
    }

    /// Returns the index of a child, which is created if it does not exist.
    fn child(&mut self, name: &Name) -> usize {
        let known = self.children.iter().position(|(other, _)| other.text == name.text);
        known.unwrap_or_else(|| {
            self.children.push((name.clone(), Self::new(self.keeps)));
            self.children.len() - 1
        })
    }

    fn set(&mut self, path: &[Name], keeps: bool) {
        let branch = path.iter().fold(self, |branch, name| {
            let child = branch.child(name);
            &mut branch.children[child].1
        });
        (branch.keeps, branch.children) = (keeps, Vec::new());
    }

    /// Inserts the renamed or new field with a number that is greater than those of earlier calls.
    fn put(&mut self, path: &[Name], number: usize) {
        let branch = path.iter().fold(self, |branch, name| {
            let child = branch.child(name);
            branch.puts.push((number, child));
            &mut branch.children[child].1
        });
        branch.put = Some(number);
    }
}

impl Selection {
    /// Compiles a selection. Without `keep`, all fields are kept.
    ///
    /// # Errors
    /// Returns an error if a path is empty or contains an index, or if one renamed field is a part of another renamed
    /// field, before or after the renaming.
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
        // The shortest paths come last, so that a field that is kept as a whole is not restricted by its parts.
        kept.sort_by_key(|names| std::cmp::Reverse(names.len()));
        let mut root = Branch::new(keep.is_none());
        kept.iter().for_each(|names| root.set(names, true));
        dropped.iter().chain(&from).for_each(|names| root.set(names, false));
        to.iter().enumerate().for_each(|(number, names)| root.put(names, number));
        let renames = from.into_iter().zip(&to).map(|(from, to)| {
            let depth = if to.len() > from.len() { to.len() } else { 0 };
            Rename { from, depth }
        });
        Ok(Self { root, renames: renames.collect(), found: Vec::new() })
    }
}

/// Returns an error if one path is a prefix of another path, or equal to it.
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
    /// Implements [`EventMut::select`](super::EventMut::select).
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
        let root = self.document_of(position)?;
        let (bytes, nodes) = self.buffers_mut();
        let Selection { root: branch, renames, found } = selection;
        let selected =
            Splice::new(bytes, nodes, found, false).renamed(root as usize, branch, renames)?;
        if let Some(root) = selected {
            self.events[position].set_document(narrow(root));
        }
        Ok(())
    }

    /// Writes an edited value back into the document and returns its root.
    pub(super) fn put_back(&mut self, index: usize) -> Result<u32, PluginError> {
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

#[cfg(test)]
mod tests;
