//! The paths of an event and its metadata that a program uses, and the slots that contain these paths. A layout is
//! computed once for each program.
//!
//! A *slot* is a part of the event or of its metadata that is converted as a whole. The path of a
//! slot is a path that the program uses, unless that path lies within another such path. Therefore
//! slots do not overlap, and an edit of one slot never changes another slot. Arrays are converted
//! as a whole.

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

    /// Returns this part of an event or of its metadata.
    pub(crate) fn of_event<'a>(
        &self,
        event: ValueRef<'a>,
        metadata: Option<ValueRef<'a>>,
    ) -> Option<ValueRef<'a>> {
        let whole = if self.is_metadata() { metadata } else { Some(event) };
        whole?.get_path(&self.way)
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
    use vrl::path::{OwnedTargetPath, parse_target_path};

    use super::Layout;

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
}
