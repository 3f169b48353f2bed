//! Which places of an event and its metadata a program reaches, and in which pieces they are
//! converted: worked out once a program.
//!
//! A piece (a *slot*) is a place that the program names, unless that lies within another that it
//! names as well. So no two slots overlap, and what is done to one is never seen in another. An
//! array is converted as a whole.

use tremor_pdk::{Path, ValueRef};
use vrl::path::{OwnedSegment, OwnedTargetPath, OwnedValuePath, PathPrefix};

/// A place that a program names.
#[derive(Debug)]
pub(crate) struct Place {
    path: OwnedTargetPath,
    /// The slot that it lies in, by position.
    pub(crate) slot: usize,
    /// The way to it from there.
    pub(crate) rest: OwnedValuePath,
    /// What an edit of it writes back: the place itself, or the array that it lies in.
    pub(crate) written: OwnedTargetPath,
    /// The way to `written` from the slot.
    pub(crate) written_rest: OwnedValuePath,
}

impl Place {
    pub(crate) fn is_metadata(&self) -> bool {
        self.path.prefix == PathPrefix::Metadata
    }
}

/// A piece that is converted as one.
#[derive(Debug)]
pub(crate) struct Slot {
    path: OwnedTargetPath,
    /// The same for our values.
    way: Path,
}

impl Slot {
    pub(crate) fn is_metadata(&self) -> bool {
        self.path.prefix == PathPrefix::Metadata
    }

    pub(crate) fn is_root(&self) -> bool {
        self.path.path.is_root()
    }

    /// The piece of an event, or of its metadata.
    pub(crate) fn of<'a>(&self, value: ValueRef<'a>) -> Option<ValueRef<'a>> {
        value.get_path(&self.way)
    }
}

/// All places, and the slots that they lie in.
#[derive(Debug)]
pub(crate) struct Layout {
    places: Vec<Place>,
    slots: Vec<Slot>,
}

impl Layout {
    /// For a program that names these places; some may come twice.
    pub(crate) fn new<'p>(named: impl IntoIterator<Item = &'p OwnedTargetPath>) -> Self {
        let mut paths: Vec<&OwnedTargetPath> = named.into_iter().collect();
        paths.sort();
        paths.dedup();
        let mut slots: Vec<OwnedTargetPath> = Vec::new();
        // A prefix comes before what it is a prefix of.
        for field in paths.iter().map(|path| without_indices(path)) {
            if !slots.iter().any(|slot| is_within(&field, slot)) {
                slots.retain(|slot| !is_within(slot, &field));
                slots.push(field);
            }
        }
        let place = |path: &OwnedTargetPath| {
            let slot = slots.iter().position(|slot| is_within(path, slot))?;
            let behind = |path: &OwnedTargetPath| OwnedValuePath {
                segments: path.path.segments[slots[slot].path.segments.len()..].to_vec(),
            };
            let written = without_indices(path);
            let (rest, written_rest) = (behind(path), behind(&written));
            Some(Place { path: path.clone(), slot, rest, written, written_rest })
        };
        let places = paths.iter().filter_map(|path| place(path)).collect();
        let slot = |path: &OwnedTargetPath| Slot { way: way(&path.path), path: path.clone() };
        Self { places, slots: slots.iter().map(slot).collect() }
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn place(&self, index: usize) -> &Place {
        &self.places[index]
    }

    /// The position of a place among those that the program names.
    pub(crate) fn find(&self, path: &OwnedTargetPath) -> Option<usize> {
        self.places.iter().position(|place| place.path == *path)
    }
}

/// The path up to its first index.
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

/// A path of fields for our values.
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
            let place = layout.place(layout.find(path).unwrap());
            let slot = &layout.slots()[place.slot];
            assert_eq!(slot.is_metadata(), place.is_metadata());
            let whole = slot.path.path.segments.iter().chain(&place.rest.segments);
            assert!(whole.eq(&path.path.segments));
        }
        layout.slots().iter().map(|slot| slot.path.to_string()).collect()
    }

    #[test]
    fn slots_do_not_overlap_and_hold_every_place() {
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
