//! The paths of an event and its metadata that a program uses, and the slots that contain these paths. A layout is
//! computed once for each program.
//!
//! A *slot* is a part of the event or of its metadata that is converted as a whole. The path of a
//! slot is a path that the program uses, unless that path lies within another such path. Therefore
//! slots do not overlap, and an edit of one slot never changes another slot. Arrays are converted
//! as a whole.

use std::cell::OnceCell;

use tremor_pdk::{Path, ValueRef};
use vrl::path::{OwnedSegment, OwnedTargetPath, OwnedValuePath, PathPrefix};

/// Path that a program uses.
#[derive(Debug)]
pub(crate) struct UsedPath {
    path: OwnedTargetPath,
    /// Index of the slot that contains the path.
    pub(crate) slot: usize,
    /// Path relative to the slot.
    pub(crate) rest: OwnedValuePath,
    /// Path that an edit writes back: the path itself, or the path of the array that contains it.
    pub(crate) written: OwnedTargetPath,
    /// The path `written` relative to the slot.
    pub(crate) written_rest: OwnedValuePath,
    /// The path `written`, for values of the runtime.
    pub(crate) way: Path,
}

impl UsedPath {
    pub(crate) fn is_metadata(&self) -> bool {
        self.path.prefix == PathPrefix::Metadata
    }
}

/// Part of an event or its metadata that is converted as a whole.
#[derive(Debug)]
pub(crate) struct Slot {
    path: OwnedTargetPath,
    /// The path of the slot, for values of the runtime.
    way: Path,
}

impl Slot {
    pub(crate) fn is_metadata(&self) -> bool {
        self.path.prefix == PathPrefix::Metadata
    }

    pub(crate) fn is_root(&self) -> bool {
        self.path.path.is_root()
    }
}

/// An event and its metadata, as a program reads them.
pub(crate) struct Input<'a> {
    event: ValueRef<'a>,
    metadata: Option<ValueRef<'a>>,
    /// Values of the first slots of the layout, once they were looked up, because a lookup compares all keys that precede
    /// the key of the slot.
    found: [OnceCell<Option<ValueRef<'a>>>; FOUND],
}

/// Number of slots whose values an [`Input`] keeps. Most programs use fewer; a value takes 40 bytes.
const FOUND: usize = 8;

impl<'a> Input<'a> {
    pub(crate) fn new(event: ValueRef<'a>, metadata: Option<ValueRef<'a>>) -> Self {
        Self { event, metadata, found: [const { OnceCell::new() }; FOUND] }
    }

    /// Returns the value of a slot of `layout`, if it exists.
    pub(crate) fn get(&self, layout: &Layout, slot: usize) -> Option<ValueRef<'a>> {
        let find = || {
            let part = &layout.slots[slot];
            let whole = if part.is_metadata() { self.metadata } else { Some(self.event) };
            whole?.get_path(&part.way)
        };
        self.found.get(slot).map_or_else(find, |found| *found.get_or_init(find))
    }
}

/// Paths that a program uses, and the slots that contain them.
#[derive(Debug)]
pub(crate) struct Layout {
    paths: Vec<UsedPath>,
    slots: Vec<Slot>,
}

impl Layout {
    /// Creates the layout of a program that uses these paths. Duplicates are allowed.
    pub(crate) fn new<'p>(named: impl IntoIterator<Item = &'p OwnedTargetPath>) -> Self {
        let mut paths: Vec<&OwnedTargetPath> = named.into_iter().collect();
        paths.sort();
        paths.dedup();
        let mut slots: Vec<OwnedTargetPath> = Vec::new();
        // The paths are sorted, so a path precedes the paths that lie within it.
        for field in paths.iter().map(|path| without_indices(path)) {
            if !slots.iter().any(|slot| is_within(&field, slot)) {
                slots.retain(|slot| !is_within(slot, &field));
                slots.push(field);
            }
        }
        let used = |path: &OwnedTargetPath| {
            let slot = slots.iter().position(|slot| is_within(path, slot))?;
            let behind = |path: &OwnedTargetPath| OwnedValuePath {
                segments: path.path.segments[slots[slot].path.segments.len()..].to_vec(),
            };
            let written = without_indices(path);
            let (rest, written_rest) = (behind(path), behind(&written));
            let way = way(&written.path);
            Some(UsedPath { path: path.clone(), slot, rest, written, written_rest, way })
        };
        let paths = paths.iter().filter_map(|path| used(path)).collect();
        let slot = |path: &OwnedTargetPath| Slot { way: way(&path.path), path: path.clone() };
        Self { paths, slots: slots.iter().map(slot).collect() }
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn path(&self, index: usize) -> &UsedPath {
        &self.paths[index]
    }

    /// Returns the index of a path among those that the program uses.
    pub(crate) fn find(&self, path: &OwnedTargetPath) -> Option<usize> {
        self.paths.iter().position(|used| used.path == *path)
    }
}

/// Returns the path up to its first index.
fn without_indices(path: &OwnedTargetPath) -> OwnedTargetPath {
    let fields = path.path.segments.iter().take_while(|segment| segment.is_field());
    OwnedTargetPath {
        prefix: path.prefix,
        path: OwnedValuePath { segments: fields.cloned().collect() },
    }
}

fn is_within(path: &OwnedTargetPath, outer: &OwnedTargetPath) -> bool {
    path.prefix == outer.prefix && path.path.segments.starts_with(&outer.path.segments)
}

/// Converts a path of fields to a path for values of the runtime.
fn way(path: &OwnedValuePath) -> Path {
    let quoted = path.segments.iter().filter_map(|segment| match segment {
        OwnedSegment::Field(key) => {
            Some(format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\"")))
        }
        OwnedSegment::Index(_) => None,
    });
    let text = quoted.collect::<Vec<_>>().join(".");
    text.parse().expect("quoted keys make a path")
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{ValueRef, literal};
    use vrl::path::{OwnedTargetPath, parse_target_path};

    use super::{FOUND, Input, Layout};

    fn slots(paths: &[&str]) -> Vec<String> {
        let parse = |path: &&str| match *path {
            "%" => OwnedTargetPath::metadata_root(),
            path => parse_target_path(path).unwrap(),
        };
        let paths: Vec<_> = paths.iter().map(parse).collect();
        let layout = Layout::new(&paths);
        for path in &paths {
            let used = layout.path(layout.find(path).unwrap());
            let slot = &layout.slots()[used.slot];
            assert_eq!(slot.is_metadata(), used.is_metadata());
            let whole = slot.path.path.segments.iter().chain(&used.rest.segments);
            assert!(whole.eq(&path.path.segments));
        }
        layout.slots().iter().map(|slot| slot.path.to_string()).collect()
    }

    #[test]
    fn slots_do_not_overlap_and_contain_every_path() {
        for (paths, expected) in [
            (&[".a", ".b", ".a"][..], &[".a", ".b"][..]),
            (&[".a.b", ".a", ".ab", "%a.c"], &[".a", ".ab", "%a.c"]),
            (&[".a[0].b", ".a[1]", ".c.d[2]"], &[".a", ".c.d"]),
            (&[".a.b[0]", ".a.b.c", "."], &["."]),
            (&["%", "%x", ".x"], &[".x", "%"]),
            (&[r#"."odd \"key\"".x"#], &[r#"."odd \"key\"".x"#]),
        ] {
            assert_eq!(slots(paths), expected);
        }
    }

    #[test]
    fn every_slot_of_an_input_has_its_value() {
        let names: Vec<String> = (0..FOUND + 2).map(|number| format!("f{number:02}")).collect();
        let paths: Vec<_> = names
            .iter()
            .flat_map(|name| [format!(".{name}"), format!("%{name}")])
            .map(|path| parse_target_path(&path).unwrap())
            .collect();
        let layout = Layout::new(&paths);
        let (mut event, mut metadata) = (literal!({}), literal!({}));
        for (number, name) in names.iter().enumerate() {
            event.as_object_mut().unwrap().insert(name.clone(), number);
            metadata.as_object_mut().unwrap().insert(name.clone(), number + 100);
        }
        let event = ValueRef::from(&event);
        for metadata in [Some(ValueRef::from(&metadata)), None] {
            let input = Input::new(event, metadata);
            for (slot, found) in layout.slots().iter().enumerate() {
                let name = found.path.path.to_string();
                let part = if found.is_metadata() { metadata } else { Some(event) };
                let expected = part.and_then(|part| part.get(&name)).and_then(ValueRef::as_u64);
                for _ in 0..2 {
                    let value = input.get(&layout, slot);
                    assert_eq!(value.and_then(ValueRef::as_u64), expected, "{name}");
                }
                assert_eq!(expected.is_some(), !found.is_metadata() || metadata.is_some());
            }
        }
    }
}
