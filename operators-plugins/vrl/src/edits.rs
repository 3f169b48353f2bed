//! Applies the changes that a program has made to an event.

use tremor_pdk::{EventMut, Result, Value, Writer};
use vrl::{path::OwnedSegment, value::Value as Vrl};

use crate::{
    convert::{from_vrl, write_vrl},
    layout::{Layout, UsedPath},
    target::{Edit, EditKind, Scratch},
};

/// Writes the edits of an event and its metadata into the batch.
///
/// # Errors
/// A written value does not fit a document.
pub(crate) fn apply(layout: &Layout, scratch: &Scratch, event: &mut EventMut<'_>) -> Result<()> {
    let (mut of_event, mut of_metadata) = (false, false);
    for edit in scratch.edits() {
        let is_metadata = layout.path(edit.path).is_metadata();
        of_metadata |= is_metadata;
        of_event |= !is_metadata;
    }
    if of_event && let Some(value) = event.value_mut() {
        replay(layout, scratch, false, value);
    }
    if !of_metadata {
        return Ok(());
    }
    let mut edits = metadata_edits(layout, scratch);
    if edits.all(|(used, edit)| edit.kind == EditKind::Written && is_key(used)) {
        return event.extend_metadata(|writer| write_keys(layout, scratch, writer));
    }
    if event.get().metadata().is_some() {
        replay(layout, scratch, true, event.metadata_mut());
        return Ok(());
    }
    let mut metadata = Value::object();
    replay(layout, scratch, true, &mut metadata);
    event.set_metadata(metadata);
    Ok(())
}

fn metadata_edits<'a>(
    layout: &'a Layout,
    scratch: &'a Scratch,
) -> impl Iterator<Item = (&'a UsedPath, &'a Edit)> {
    let edits = scratch.edits().iter().map(|edit| (layout.path(edit.path), edit));
    edits.filter(|(used, _)| used.is_metadata())
}

fn is_key(used: &UsedPath) -> bool {
    matches!(used.written.path.segments[..], [OwnedSegment::Field(_)])
}

/// Writes keys of the metadata directly into the document. If the program wrote a key several times, the last value is
/// kept.
fn write_keys(layout: &Layout, scratch: &Scratch, writer: &mut Writer<'_>) {
    for (used, _) in metadata_edits(layout, scratch) {
        if let [OwnedSegment::Field(key)] = &used.written.path.segments[..] {
            writer.key(key);
            write_vrl(scratch.written(used).unwrap_or(&Vrl::Null), writer);
        }
    }
}

/// Applies the edits of the program to `value`, in order. A write stores the final value of its
/// path, or `null` if the value no longer exists, because earlier values are not kept. A later
/// removal of the value is a separate edit.
fn replay(layout: &Layout, scratch: &Scratch, metadata: bool, value: &mut Value<'static>) {
    for edit in scratch.edits() {
        let used = layout.path(edit.path);
        if used.is_metadata() != metadata {
            continue;
        }
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
