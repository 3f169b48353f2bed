//! Writing back what a program has changed, and nothing else.

use tremor_pdk::{EventMut, Result, Value, Writer};
use vrl::{path::OwnedSegment, value::Value as Vrl};

use crate::{
    convert::{from_vrl, write_vrl},
    layout::{Layout, Place},
    target::{Edit, EditKind, Scratch},
};

/// Writes the edits of an event and its metadata into the batch.
///
/// # Errors
/// A written value fits no document.
pub(crate) fn apply(layout: &Layout, scratch: &Scratch, event: &mut EventMut<'_>) -> Result<()> {
    let (mut of_event, mut of_metadata) = (false, false);
    for edit in scratch.edits() {
        let is_metadata = layout.place(edit.place).is_metadata();
        of_metadata |= is_metadata;
        of_event |= !is_metadata;
    }
    if of_event && let Some(value) = event.value_mut() {
        replay(layout, scratch, false, value);
    }
    if !of_metadata {
        return Ok(());
    }
    if event.get().metadata().is_some() {
        replay(layout, scratch, true, event.metadata_mut());
        return Ok(());
    }
    let mut edits = metadata_edits(layout, scratch);
    if edits.all(|(place, edit)| edit.kind == EditKind::Written && is_key(place)) {
        return event.write_metadata(|writer| write_keys(layout, scratch, writer));
    }
    let mut metadata = Value::object();
    replay(layout, scratch, true, &mut metadata);
    event.set_metadata(metadata);
    Ok(())
}

fn metadata_edits<'a>(
    layout: &'a Layout,
    scratch: &'a Scratch,
) -> impl Iterator<Item = (&'a Place, &'a Edit)> {
    let edits = scratch.edits().iter().map(|edit| (layout.place(edit.place), edit));
    edits.filter(|(place, _)| place.is_metadata())
}

fn is_key(place: &Place) -> bool {
    matches!(place.written.path.segments[..], [OwnedSegment::Field(_)])
}

/// Metadata of nothing but keys that were written, straight into the document. A key that was
/// written twice stands there once.
fn write_keys(layout: &Layout, scratch: &Scratch, writer: &mut Writer<'_>) {
    writer.begin_object();
    for (place, _) in metadata_edits(layout, scratch) {
        if let [OwnedSegment::Field(key)] = &place.written.path.segments[..] {
            writer.key(key);
            write_vrl(scratch.written(place).unwrap_or(&Vrl::Null), writer);
        }
    }
    writer.end_object();
}

/// Does to a value of ours what was done to VRL's. The edits are made in order, each with the value
/// that its place has in the end; so what is made and removed on the way is so here.
fn replay(layout: &Layout, scratch: &Scratch, metadata: bool, value: &mut Value<'static>) {
    for edit in scratch.edits() {
        let place = layout.place(edit.place);
        if place.is_metadata() != metadata {
            continue;
        }
        let path = &place.written.path.segments;
        match edit.kind {
            EditKind::Written => {
                *made(value, path) = scratch.written(place).map_or(Value::Null, from_vrl);
            }
            EditKind::Removed { compact } => remove(value, path, compact),
        }
    }
}

/// The value at a path of fields. What is no object on the way becomes one, as in VRL.
fn made<'a>(mut value: &'a mut Value<'static>, path: &[OwnedSegment]) -> &'a mut Value<'static> {
    for segment in path {
        let OwnedSegment::Field(key) = segment else { break };
        if value.as_object().is_none() {
            *value = Value::object();
        }
        value = match value {
            Value::Object(object) => object.get_or_insert_with(key, || Value::Null),
            _ => unreachable!("it is an object"),
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
