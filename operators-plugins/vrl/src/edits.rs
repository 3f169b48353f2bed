//! Applies the changes that a program has made to an event.
//!
//! The edits that a program makes to an event are the same for many events. They are compiled once to a [`Plan`], which
//! writes all of them in one pass over the nodes of the document, without a tree of the event.

use tremor_pdk::{
    Edits, Error, EventMut, MAX_DEPTH, MetadataFields, Part, Path, Result, Value, Writer,
};
use vrl::{path::OwnedSegment, value::Value as Vrl};

use crate::{
    convert::{from_vrl, write_vrl},
    layout::{Layout, UsedPath},
    target::{Edit, EditKind, Scratch},
};

/// Maximum number of sequences of edits whose plans are kept. A program that edits in a loop may make any number of
/// sequences.
const SEQUENCES: usize = 256;

/// Maximum number of edits of a sequence whose plan is kept.
const LONGEST: usize = 64;

/// The compiled edits of a program, for each sequence of edits that it makes.
#[derive(Debug, Default)]
pub(crate) struct Plans(Vec<(Box<[Edit]>, [Plan; 2])>);

/// A way to apply the edits of one part of an event: of the payload or of the metadata.
#[derive(Clone, Debug)]
enum Plan {
    /// The part has no edits.
    None,
    /// The program has written the whole part. The number is the index of its path.
    Whole([usize; 1]),
    /// The program has written keys of the metadata, and removed none. The numbers are the indices of their paths.
    Keys(Vec<usize>),
    /// Fields are set and removed. The numbers are the indices of the paths that are set.
    Fields(Box<Edits>, Vec<usize>),
    /// The result depends on the order of the edits, such as that of a value and a removed object that contains it. The
    /// edits are applied to a tree, one after the other. The numbers are the indices of the paths that are set.
    Tree(Vec<usize>),
}

impl Plans {
    /// Writes the edits of an event and its metadata into the batch.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the event would be nested too deeply. The event then stays unchanged.
    pub(crate) fn apply(
        &mut self,
        layout: &Layout,
        scratch: &Scratch,
        event: &mut EventMut<'_>,
    ) -> Result<()> {
        let edits = scratch.edits();
        if edits.is_empty() {
            return Ok(());
        }
        let mut temporary;
        let plans = if let Some(known) = self.find(edits) {
            &mut self.0[known].1
        } else {
            temporary = [Part::Payload, Part::Metadata].map(|it| Plan::new(layout, scratch, it));
            if edits.len() <= LONGEST {
                self.keep(edits, &temporary);
            }
            &mut temporary
        };
        if plans.iter().any(|plan| plan.is_too_deep(layout, scratch)) {
            return Err(Error::bad_data(format_args!(
                "cannot write the edits of the program: the event would be nested deeper than {MAX_DEPTH} levels"
            )));
        }
        plans[0].apply(layout, scratch, event, Part::Payload)?;
        plans[1].apply(layout, scratch, event, Part::Metadata)
    }

    /// Returns the position of the plans of a sequence of edits. Sequences that occur often move to the beginning.
    fn find(&mut self, edits: &[Edit]) -> Option<usize> {
        let position = self.0.iter().position(|(known, _)| **known == *edits)?;
        self.0.swap(position, position / 2);
        Some(position / 2)
    }

    fn keep(&mut self, edits: &[Edit], plans: &[Plan; 2]) {
        if self.0.len() == SEQUENCES {
            self.0.truncate(SEQUENCES / 2);
        }
        self.0.push((edits.into(), plans.clone()));
    }
}

impl Plan {
    fn new(layout: &Layout, scratch: &Scratch, part: Part) -> Self {
        let (mut fields, mut is_ordered) = (Vec::<Field<'_>>::new(), false);
        for (used, edit) in edits_of(layout, scratch, part) {
            let path = &used.written.path.segments;
            let is_set = edit.kind == EditKind::Written;
            // An empty object at the root is not removed, so that `compact` matters only within an object.
            let is_compact = edit.kind == EditKind::Removed { compact: true } && path.len() > 1;
            match fields.iter_mut().find(|field| field.path == path) {
                // A key of the payload that is removed at the end was only a temporary value.
                Some(field) if path.len() == 1 && !is_set && part == Part::Payload => {
                    field.is_set = false;
                }
                Some(field) => is_ordered |= field.is_set != is_set || is_compact,
                None => {
                    is_ordered |= is_compact;
                    fields.push(Field { path, index: edit.path, is_set });
                }
            }
        }
        if fields.is_empty() {
            return Self::None;
        }
        let written = edits_of(layout, scratch, part).filter(|it| it.1.kind == EditKind::Written);
        let mut written: Vec<usize> = written.map(|(_, edit)| edit.path).collect();
        written.sort_unstable();
        written.dedup();
        let tree = Self::Tree(written);
        if is_ordered {
            return tree;
        }
        let mut outermost: Vec<Field<'_>> = Vec::new();
        for field in &fields {
            let around = fields.iter().filter(|outer| field.is_within(outer));
            if around.clone().any(|outer| !outer.is_set) {
                return tree;
            }
            let outer = around.min_by_key(|outer| outer.path.len());
            // The final value of the outer field contains the edits within it. A field that is set also creates the
            // outer field if this is missing, so that the first edit decides about the position among new fields.
            if outer.is_some() && !field.is_set {
                continue;
            }
            let field = outer.unwrap_or(field);
            if !outermost.iter().any(|it| it.path == field.path) {
                outermost.push(*field);
            }
        }
        if let [Field { path: [], index, is_set: true }] = outermost[..] {
            return Self::Whole([index]);
        }
        let set: Vec<usize> = outermost.iter().filter(|it| it.is_set).map(|it| it.index).collect();
        let are_keys =
            set.len() == outermost.len() && outermost.iter().all(|it| it.path.len() == 1);
        if part == Part::Metadata && are_keys {
            return Self::Keys(set);
        }
        let paths = |is_set: bool| {
            let fields = outermost.iter().filter(move |field| field.is_set == is_set);
            fields.map(|it| layout.path(it.index).way.clone()).collect::<Vec<Path>>()
        };
        match Edits::new(&paths(true), &paths(false)) {
            Ok(edits) => Self::Fields(Box::new(edits), set),
            Err(_) => tree,
        }
    }

    /// Returns whether a written value would be nested too deeply.
    fn is_too_deep(&self, layout: &Layout, scratch: &Scratch) -> bool {
        let set: &[usize] = match self {
            Self::None => &[],
            Self::Whole(index) => index,
            Self::Keys(set) | Self::Fields(_, set) | Self::Tree(set) => set,
        };
        set.iter().any(|index| {
            let used = layout.path(*index);
            let levels = MAX_DEPTH.checked_sub(used.written.path.segments.len());
            let value = scratch.written(used).unwrap_or(&Vrl::Null);
            !levels.is_some_and(|levels| has_levels(value, levels))
        })
    }

    fn apply(
        &mut self,
        layout: &Layout,
        scratch: &Scratch,
        event: &mut EventMut<'_>,
        part: Part,
    ) -> Result<()> {
        let is_payload = part == Part::Payload;
        let written = |index| scratch.written(layout.path(index)).unwrap_or(&Vrl::Null);
        match self {
            Self::None => Ok(()),
            Self::Whole([index]) if is_payload => event.write_value(|writer| {
                write_vrl(written(*index), writer);
                Ok(())
            }),
            Self::Whole([index]) => {
                event.set_metadata(from_vrl(written(*index)));
                Ok(())
            }
            Self::Keys(set) => {
                event.extend_metadata(|writer| write_keys(layout, scratch, set, writer))
            }
            Self::Fields(edits, set) if has_fields(event, part) => {
                event.edit(part, edits, |field, value| {
                    value.write(|writer| write_vrl(written(set[field]), writer));
                })
            }
            Self::Fields(..) | Self::Tree(_) => {
                replay(layout, scratch, event, part);
                Ok(())
            }
        }
    }
}

/// Returns the fields that the edits add to the metadata, if they do nothing else.
pub(crate) fn added_fields(layout: &Layout, scratch: &Scratch) -> Option<MetadataFields> {
    let plans = [Part::Payload, Part::Metadata].map(|part| Plan::new(layout, scratch, part));
    let [Plan::None, plan @ Plan::Keys(set)] = &plans else { return None };
    if plan.is_too_deep(layout, scratch) {
        return None;
    }
    MetadataFields::new(|writer| write_keys(layout, scratch, set, writer)).ok()
}

/// Writes the keys of the metadata that a program has written. `set` are the indices of their paths.
fn write_keys(layout: &Layout, scratch: &Scratch, set: &[usize], writer: &mut Writer<'_>) {
    for used in set.iter().map(|index| layout.path(*index)) {
        if let [OwnedSegment::Field(key)] = &used.written.path.segments[..] {
            writer.key(key);
            write_vrl(scratch.written(used).unwrap_or(&Vrl::Null), writer);
        }
    }
}

/// A field that the program has set or removed.
#[derive(Clone, Copy)]
struct Field<'l> {
    path: &'l [OwnedSegment],
    /// Index of its path in the layout.
    index: usize,
    /// `false` if the field is removed.
    is_set: bool,
}

impl Field<'_> {
    fn is_within(&self, outer: &Self) -> bool {
        self.path.len() > outer.path.len() && self.path.starts_with(outer.path)
    }
}

/// Returns whether a value has at most this number of nested arrays and objects.
fn has_levels(value: &Vrl, levels: usize) -> bool {
    match value {
        Vrl::Array(array) => {
            levels > 0 && array.iter().all(|element| has_levels(element, levels - 1))
        }
        Vrl::Object(object) => {
            levels > 0 && object.values().all(|value| has_levels(value, levels - 1))
        }
        _ => true,
    }
}

/// Returns the edits of one part of an event, in order.
fn edits_of<'a>(
    layout: &'a Layout,
    scratch: &'a Scratch,
    part: Part,
) -> impl Iterator<Item = (&'a UsedPath, &'a Edit)> {
    let edits = scratch.edits().iter().map(|edit| (layout.path(edit.path), edit));
    edits.filter(move |(used, _)| used.is_metadata() == (part == Part::Metadata))
}

/// Returns whether the part of the event is an object, or metadata that the event does not have.
fn has_fields(event: &EventMut<'_>, part: Part) -> bool {
    match part {
        Part::Payload => event.value().is_some_and(|value| value.as_object().is_some()),
        Part::Metadata => event.get().metadata().is_none_or(|value| value.as_object().is_some()),
    }
}

/// Applies the edits of the program to a tree of the part, in order. A write stores the final value of its path, or
/// `null` if the value no longer exists, because earlier values are not kept. A later removal of the value is a
/// separate edit.
fn replay(layout: &Layout, scratch: &Scratch, event: &mut EventMut<'_>, part: Part) {
    let value = match part {
        Part::Payload => match event.value_mut() {
            Some(value) => value,
            None => return,
        },
        Part::Metadata => event.metadata_mut(),
    };
    for (used, edit) in edits_of(layout, scratch, part) {
        let path = &used.written.path.segments;
        match edit.kind {
            EditKind::Written => {
                *get_or_create(value, path) = scratch.written(used).map_or(Value::Null, from_vrl);
            }
            EditKind::Removed { compact } => remove(value, path, compact),
        }
    }
}

/// Returns the value at a path of fields, which is created as `null` if it does not exist. Each value before the end of
/// the path that is not an object is replaced by an empty object, as in VRL.
fn get_or_create<'a>(
    mut value: &'a mut Value<'static>,
    path: &[OwnedSegment],
) -> &'a mut Value<'static> {
    for segment in path {
        let OwnedSegment::Field(key) = segment else { break };
        if value.as_object().is_none() {
            *value = Value::object();
        }
        value = match value {
            Value::Object(object) => object.get_or_insert_with(key, || Value::Null),
            _ => unreachable!("the value was replaced by an object"),
        };
    }
    value
}

fn remove(value: &mut Value<'static>, path: &[OwnedSegment], compact: bool) {
    let [OwnedSegment::Field(key), rest @ ..] = path else { return };
    let Some(object) = value.as_object_mut() else { return };
    if rest.is_empty() {
        object.remove(key);
        return;
    }
    let Some(inner) = object.get_mut(key) else { return };
    remove(inner, rest, compact);
    if compact && inner.as_object().is_some_and(tremor_pdk::Object::is_empty) {
        object.remove(key);
    }
}

#[cfg(test)]
pub(crate) mod tests;
