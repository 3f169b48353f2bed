//! Decoding of protobuf to an event.

use tremor_pdk::{Batch, Result, Writer};

use crate::{
    message::{DEEPEST, Field, Kind, Message},
    scalar::{Integers, Scalar, too_much},
    wire::{Payload, Reader, Slice, wrong},
};

/// Reads a message and writes its value. Fields that the schema does not contain are skipped, as OTLP requires.
pub(crate) fn read(
    message: &Message,
    bytes: &[u8],
    integers: Integers,
    most: usize,
    writer: &mut Writer<'_>,
) -> Result<()> {
    let mut reading = Reading { integers, most, writer };
    reading.message(message, Slice { bytes, at: 0 }, DEEPEST)
}

/// Returns the maximum size in bytes of the decoded form of a message of `message` bytes.
pub(crate) fn most(message: usize) -> usize {
    Batch::decoded_at_most(message)
}

/// Bytes of each node of a document. The limit on the decoded form is checked by counting nodes;
/// this check does not count text.
const NODE: usize = 16;

struct Reading<'a, 'b> {
    integers: Integers,
    most: usize,
    writer: &'a mut Writer<'b>,
}

/// A field of a message: its index in the schema, its contents, and their position.
type Found<'m> = (usize, Payload<'m>, usize);

impl Reading<'_, '_> {
    fn message(&mut self, message: &Message, slice: Slice<'_>, depth: usize) -> Result<()> {
        if depth == 0 {
            let what = format!("messages are nested deeper than {DEEPEST} levels");
            return Err(wrong(slice.at, &what));
        }
        self.admit()?;
        self.writer.begin_object();
        // Fields are written in the order of the schema, which may differ from their order in the message.
        let found = find(message, slice)?;
        for same in found.chunk_by(|one, other| one.0 == other.0) {
            let Some((index, ..)) = same.first() else { continue };
            let field = &message.fields[*index];
            if field.is_repeated {
                self.repeated(field, same, depth)?;
            } else {
                self.single(field, same, depth)?;
            }
        }
        self.writer.end_object();
        Ok(())
    }

    /// Reads a field that is not repeated. If the field occurs several times, the last value counts, but messages are
    /// merged, as protobuf requires.
    fn single(&mut self, field: &Field, same: &[Found<'_>], depth: usize) -> Result<()> {
        let Some((_, payload, at)) = same.last() else { return Ok(()) };
        if let Kind::Message(inner) = field.kind {
            let slices = same.iter().map(|found| message_of(found));
            let mut slices = slices.collect::<Result<Vec<_>>>()?;
            let joined;
            if slices.len() > 1 {
                joined = slices.iter().flat_map(|slice| slice.bytes).copied().collect::<Vec<_>>();
                slices = vec![Slice { bytes: &joined, at: slices[0].at }];
            }
            self.writer.key(field.name);
            return self.message(inner, slices[0], depth - 1);
        }
        let scalar = Scalar::of_wire(field.kind, *payload, *at)?;
        if field.keeps_default || !scalar.is_default() {
            self.writer.key(field.name);
            scalar.to_event(field.kind, self.integers, self.writer);
        }
        Ok(())
    }

    fn repeated(&mut self, field: &Field, same: &[Found<'_>], depth: usize) -> Result<()> {
        self.writer.key(field.name);
        self.writer.begin_array();
        for found in same {
            let (_, payload, at) = found;
            match (field.kind, *payload) {
                (Kind::Message(inner), _) => self.message(inner, message_of(found)?, depth - 1)?,
                (kind, Payload::Bytes(slice)) if kind.wire_type() != 2 => {
                    let mut packed = Reader::new(slice);
                    while !packed.is_empty() {
                        let payload = kind.unpack(&mut packed)?;
                        self.element(kind, payload, slice.at)?;
                    }
                }
                (kind, payload) => self.element(kind, payload, *at)?,
            }
        }
        self.writer.end_array();
        Ok(())
    }

    fn element(&mut self, kind: Kind, payload: Payload<'_>, at: usize) -> Result<()> {
        self.admit()?;
        Scalar::of_wire(kind, payload, at)?.to_event(kind, self.integers, self.writer);
        Ok(())
    }

    /// Returns an error if the number of nodes exceeds the limit on the decoded form.
    fn admit(&self) -> Result<()> {
        if self.writer.nodes() <= self.most / NODE { Ok(()) } else { Err(too_much(self.most)) }
    }
}

/// Returns the fields of a message that the schema contains, in the order of the schema.
fn find<'m>(message: &Message, slice: Slice<'m>) -> Result<Vec<Found<'m>>> {
    let mut found: Vec<Found<'m>> = Vec::new();
    let mut reader = Reader::new(slice);
    let mut one_of: Option<usize> = None;
    while !reader.is_empty() {
        let at = reader.at();
        let (number, payload) = reader.field()?;
        let index = message.fields.iter().position(|field| field.number == number);
        let Some(index) = index else { continue };
        let is_one_of = message.fields[index].is_one_of;
        match one_of.and_then(|at| found.get_mut(at)).filter(|_| is_one_of) {
            // If the message contains several fields of a `oneof`, the last field counts.
            Some(other) if other.0 != index => *other = (index, payload, at),
            _ => {
                if is_one_of {
                    one_of = Some(found.len());
                }
                found.push((index, payload, at));
            }
        }
    }
    found.sort_by_key(|(index, ..)| *index);
    Ok(found)
}

fn message_of<'m>((_, payload, at): &Found<'m>) -> Result<Slice<'m>> {
    match payload {
        Payload::Bytes(slice) => Ok(*slice),
        _ => Err(wrong(*at, "expected a message here, which is length-delimited bytes")),
    }
}
