//! Properties of frames, with random batches.

mod answers;
mod hostile;
mod miri;
mod round_trip;

use proptest::prelude::*;

use super::{Decoded, Encoder, Medium, decode};
use crate::{
    ByteBuffer, NodeBuffer,
    batch::{Batch, Event, EventMut, Format, Origin, PayloadKind, Pool, Span},
    document::{Node, tests::any_value},
    error::PluginError,
    value::Value,
};

/// A step in the life of a batch.
#[derive(Clone, Debug)]
enum Step {
    Raw(u64, Vec<u8>),
    Fragment(u64, Vec<u8>),
    Document(Value<'static>),
    /// Decodes all raw events, as the runtime does.
    Decode(Option<Format>),
    Edit(usize, Value<'static>),
    /// Hides the message of an event, as an operator does that removes secrets.
    Forget(usize),
    /// Sets metadata in the table of values.
    SetMetadata(usize, Value<'static>),
    /// Writes metadata to the nodes.
    WriteMetadata(usize, Value<'static>),
    /// Sets an origin in the table of values.
    SetOrigin(usize, String),
    /// Writes an origin with metadata to the nodes.
    ApplyOrigin(usize, String, Value<'static>),
    /// Gives one event the metadata and the origin of another.
    Share(usize, usize),
    End(u64, bool),
    Remove(usize),
    Swap(usize, usize),
    /// Replaces the batch by a copy with separate buffers, as an operator may do.
    Copy,
    /// Sets source, pull, position and time of an event.
    Stamp(usize, u32, u64, usize),
    /// Makes an event a dead letter, as the runtime does: raw, with its error in the metadata.
    DeadLetter(usize, String),
}

fn any_step() -> impl Strategy<Value = Step> {
    let at = 0_usize..8;
    let data = prop::collection::vec(any::<u8>(), 0..40);
    let text = "[a-z ]{0,30}";
    let format = prop_oneof![Just(None), Just(Some(Format::Json)), Just(Some(Format::Msgpack))];
    prop_oneof![
        (0_u64..3, data.clone()).prop_map(|(stream, data)| Step::Raw(stream, data)),
        (0_u64..3, text).prop_map(|(stream, text)| Step::Raw(stream, text.into_bytes())),
        (0_u64..3, data).prop_map(|(stream, data)| Step::Fragment(stream, data)),
        any_value().prop_map(Step::Document),
        format.prop_map(Step::Decode),
        (at.clone(), any_value()).prop_map(|(at, value)| Step::Edit(at, value)),
        at.clone().prop_map(Step::Forget),
        (at.clone(), any_value()).prop_map(|(at, value)| Step::SetMetadata(at, value)),
        (at.clone(), any_value()).prop_map(|(at, value)| Step::WriteMetadata(at, value)),
        (at.clone(), text).prop_map(|(at, text)| Step::SetOrigin(at, text)),
        (at.clone(), text, any_value())
            .prop_map(|(at, text, value)| Step::ApplyOrigin(at, text, value)),
        (at.clone(), at.clone()).prop_map(|(to, from)| Step::Share(to, from)),
        (0_u64..3, any::<bool>()).prop_map(|(stream, is_aborted)| Step::End(stream, is_aborted)),
        at.clone().prop_map(Step::Remove),
        (at.clone(), at.clone()).prop_map(|(one, other)| Step::Swap(one, other)),
        Just(Step::Copy),
        (at.clone(), 0_u32..3, any::<u64>(), 0_usize..70_000)
            .prop_map(|(at, source, pull, position)| Step::Stamp(at, source, pull, position)),
        (at, text).prop_map(|(at, text)| Step::DeadLetter(at, text)),
    ]
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(), 0..24)
}

/// Decodes a message to an array of two texts: the message itself, in place, and a text that is appended.
fn codec(bytes: &mut ByteBuffer, nodes: &mut NodeBuffer, span: Span) -> Result<u32, PluginError> {
    if span.len == 0 {
        return Err(PluginError::bad_data("no format has a value of no bytes"));
    }
    let text =
        std::str::from_utf8(&bytes[span.range()]).map_err(PluginError::bad_data)?.to_uppercase();
    let (root, appended) = (nodes.len(), bytes.len() as u64);
    bytes.extend_from_copy_slice(text.as_bytes());
    let len = u32::try_from(text.len()).unwrap();
    let texts = [Node::string(span.start.into(), span.len), Node::string(appended, len)];
    nodes.push(Node::array(2, 3));
    nodes.extend(texts);
    Ok(u32::try_from(root).unwrap())
}

fn apply(batch: &mut Batch, steps: &[Step]) {
    for step in steps {
        let count = batch.len();
        let at = |at: &usize| at % count.max(1);
        match step {
            Step::Raw(stream, data) => batch.stream(*stream).push_message(data),
            Step::Fragment(stream, data) => batch.stream(*stream).push_fragment(data),
            Step::Document(value) => batch.push(value).unwrap(),
            Step::Decode(format) => {
                batch.decode_as(|bytes, nodes, span| Ok((codec(bytes, nodes, span)?, *format)));
            }
            Step::End(stream, false) => batch.stream(*stream).end(),
            Step::End(stream, true) => batch.stream(*stream).abort(),
            Step::Copy => {
                let mut copy = Batch::new();
                batch.iter().for_each(|event| copy.push_event(event));
                *batch = copy;
            }
            _ if count == 0 => {}
            Step::Edit(position, value) => {
                if let Some(edited) = batch.value_mut(at(position)) {
                    *edited = value.clone();
                }
            }
            Step::Forget(position) => EventMut::new(batch, at(position)).forget_original(),
            Step::SetMetadata(position, value) => batch.set_metadata(at(position), value.clone()),
            Step::WriteMetadata(position, value) => {
                batch
                    .write_metadata(at(position), |writer| writer.write_value(value.into()))
                    .unwrap();
            }
            Step::SetOrigin(position, text) => batch.set_origin_from(at(position), text),
            Step::ApplyOrigin(position, text, value) => {
                let origin = Origin::new(text, |writer| writer.write_value(value.into()));
                batch.apply_origin(at(position), &origin);
            }
            Step::Share(to, from) => {
                let from = batch.events()[at(from)];
                let to = &mut batch.events_mut()[at(to)];
                (to.metadata, to.origin) = (from.metadata, from.origin);
            }
            Step::Remove(position) => drop(batch.events.remove(at(position))),
            Step::Swap(one, other) => batch.events.swap(at(one), at(other)),
            Step::Stamp(position, source, pull, stamp) => {
                let event = &mut batch.events_mut()[at(position)];
                (event.source, event.pull, event.ingest_ns) = (*source, *pull, pull.rotate_left(7));
                event.set_position(*stamp);
            }
            Step::DeadLetter(position, text) => {
                let position = at(position);
                let payload = batch.append_bytes(text.as_bytes()).unwrap();
                batch.events_mut()[position] = batch.events()[position].with_raw(payload);
                let write = |writer: &mut crate::document::Writer<'_>| {
                    writer.begin_object();
                    writer.key("error");
                    writer.str(text);
                    writer.end_object();
                };
                batch.write_metadata(position, write).unwrap();
            }
        }
    }
}

fn batch(steps: &[Step]) -> Batch {
    let mut batch = Batch::new();
    apply(&mut batch, steps);
    batch.validate().unwrap();
    batch
}

/// Removes what a record on disk must not contain: ends of streams, and the claim that a value is that of a message
/// without bytes.
fn for_disk(mut batch: Batch) -> Batch {
    batch.events.retain(|event| event.kind != PayloadKind::NONE);
    for event in &mut batch.events {
        if event.unedited().is_some() && event.original.len == 0 {
            event.set_edited();
        }
    }
    batch
}

/// Everything that can be seen of an event.
#[derive(Debug, PartialEq)]
struct SeenEvent {
    numbers: (u8, u16, u32, u64, u64, u64),
    raw: Option<Vec<u8>>,
    value: Option<(Value<'static>, String)>,
    original: Vec<u8>,
    metadata: Option<(Value<'static>, String)>,
    origin: Option<String>,
}

fn seen(batch: &Batch) -> Vec<SeenEvent> {
    let of = |event: &Event| SeenEvent {
        numbers: (
            event.flags.0,
            event.position,
            event.source,
            event.stream,
            event.pull,
            event.ingest_ns,
        ),
        raw: batch.raw(event).map(<[u8]>::to_vec),
        value: batch.value(event).map(|value| (value.to_value(), value.to_string())),
        original: batch.original(event).to_vec(),
        metadata: batch.metadata(event).map(|value| (value.to_value(), value.to_string())),
        origin: batch.origin(event).map(str::to_owned),
    };
    batch.events().iter().map(of).collect()
}

/// Returns the frame of a batch.
fn encoded(batch: &Batch, medium: Medium) -> Vec<u8> {
    let mut encoder = Encoder::new(medium);
    let prepared = encoder.prepare(batch).unwrap();
    let (mut appended, mut written) = (Vec::new(), vec![0xaa; prepared.len()]);
    prepared.append_to(7, &mut appended);
    prepared.write(7, &mut written).unwrap();
    assert!(appended == written, "both forms of writing agree");
    assert!(prepared.write(7, &mut written[1..]).is_err());
    written
}

/// Reads a frame that is at an address of any alignment.
fn decoded(frame: &[u8], medium: Medium) -> Decoded {
    let pool = Pool::new(1);
    let mut moved = vec![0; frame.len() + 1];
    moved[1..].copy_from_slice(frame);
    let results = [&moved[1..], frame].map(|frame| decode(frame, &pool, medium).unwrap());
    assert_eq!(seen(&results[0].batch), seen(&results[1].batch));
    let [_, decoded] = results;
    decoded
}
