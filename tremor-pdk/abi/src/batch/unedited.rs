//! Events whose payload is still the value of the message that they were decoded from. They may leave as they came.

use super::{Batch, Event, EventFlags, PayloadKind};
use crate::document::ValueRef;

/// The format of a message that the runtime decoded. The runtime stores it in two bits of `EventFlags` for as long as
/// the event is not edited, so that the message can leave as it came.
///
/// No plugin sets these bits. The kit copies them with an event, and clears them when the payload is edited. After a
/// call to a loaded plugin, which may be built with a kit that does not clear them, the runtime confirms the bits of
/// each event that changed: see [`HostBatch::confirm`](super::HostBatch::confirm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json = 8,
    /// `MessagePack`.
    Msgpack = 16,
}

impl Format {
    /// The bits of all formats.
    pub(super) const BITS: u8 = Self::Json as u8 | Self::Msgpack as u8;

    /// Returns the format whose bit is set in `flags`, or `None` if not exactly one of the bits is set.
    #[inline]
    pub(super) const fn of(flags: EventFlags) -> Option<Self> {
        const JSON: u8 = Format::Json as u8;
        const MSGPACK: u8 = Format::Msgpack as u8;
        match flags.0 & Self::BITS {
            JSON => Some(Self::Json),
            MSGPACK => Some(Self::Msgpack),
            _ => None,
        }
    }
}

/// The positions of events of a batch of a plugin that claim to be unedited messages, and that were not in the batch
/// before the call. The validation does not read messages, so [`HostBatch::confirm`](super::HostBatch::confirm) does.
#[derive(Debug, Default)]
pub struct Claims(Vec<usize>);

impl Claims {
    /// Adds the event at `position` if it claims to be unedited.
    #[inline]
    pub(super) fn add(&mut self, position: usize, event: &Event) {
        if event.unedited().is_some() {
            self.0.push(position);
        }
    }

    /// Returns whether there is no claim to confirm.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Event {
    /// Returns the format of [`Event::original`], if the payload is the value of that message and was not edited.
    #[inline]
    pub(crate) fn unedited(&self) -> Option<Format> {
        if self.kind != PayloadKind::DOCUMENT {
            return None;
        }
        Format::of(self.flags)
    }

    /// Records that the payload may differ from the message that it was decoded from.
    #[inline]
    pub(super) const fn set_edited(&mut self) {
        self.flags.0 &= !Format::BITS;
    }
}

impl Batch {
    pub(crate) fn confirm(
        &mut self,
        claims: &Claims,
        mut is_true: impl FnMut(Format, &[u8], ValueRef<'_>) -> bool,
    ) {
        for &position in &claims.0 {
            let Some(event) = self.events.get(position) else { continue };
            let claim = event.unedited().zip(self.value(event));
            if !claim.is_some_and(|(format, value)| is_true(format, self.original(event), value)) {
                self.events[position].set_edited();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Format;
    use crate::{
        batch::{Batch, EventMut, Insertion, Mark, Output, Part, Payload, Pool, Selection, Unnest},
        batch::{Edits, Event, EventFlags},
        document::{Node, fingerprint},
        literal,
        value::Path,
    };

    /// Returns a batch of two unedited messages, whose values are `{"a": ["b"]}`.
    fn decoded() -> Batch {
        let mut batch = Batch::new();
        batch.push_message(b"ab");
        batch.push_message(b"ab");
        batch.decode_as(|_, nodes, span| {
            let root = u32::try_from(nodes.len()).unwrap();
            let start = u64::from(span.start);
            nodes.extend([
                Node::object(1, 4),
                Node::key(start, 1, fingerprint(b"a")),
                Node::array(1, 2),
                Node::string(start + 1, 1),
            ]);
            Ok((root, Some(Format::Json)))
        });
        batch
    }

    /// Returns, for each event, whether an encoder gets an unedited message for it.
    fn unedited(batch: &Batch) -> Vec<bool> {
        let mut found = Vec::new();
        batch.clone().encode_with(&Pool::new(1), |payload, _| {
            found.push(match payload {
                Payload::Document { unedited: Some((format, span)), .. } => {
                    assert_eq!((format, &batch.bytes()[span.range()]), (Format::Json, &b"ab"[..]));
                    true
                }
                _ => false,
            });
            Ok(())
        });
        found
    }

    fn path(text: &str) -> Path {
        text.parse().unwrap()
    }

    fn edits() -> Edits {
        Edits::new(&[path("c")], &[]).unwrap()
    }

    #[test]
    fn edited_payload_is_no_longer_its_message() {
        type Edit = fn(EventMut<'_>);
        let edits: [(&str, Edit); 5] = [
            ("value_mut", |mut event| *event.value_mut().unwrap() = literal!({ "a": ["b"] })),
            ("select", |mut event| {
                let mut selection = Selection::new(None, &[path("a")], &[]).unwrap();
                event.select(&mut selection).unwrap();
            }),
            ("write_value", |mut event| {
                event
                    .write_value(|writer| {
                        writer.str("b");
                        Ok(())
                    })
                    .unwrap();
            }),
            ("insert", |mut event| {
                let mut insertion = Insertion::new(&path("c"), None).unwrap();
                event
                    .insert(&mut insertion, |writer| {
                        writer.str("d");
                        Ok(())
                    })
                    .unwrap();
            }),
            ("edit", |mut event| {
                let write = |_, field: &mut crate::batch::FieldWriter<'_>| {
                    field.write(|writer| writer.str("d"));
                };
                event.edit(Part::Payload, &mut edits(), write).unwrap();
            }),
        ];
        for (name, edit) in edits {
            let mut batch = decoded();
            edit(batch.get_mut(0).unwrap());
            assert_eq!(unedited(&batch), [false, true], "{name}");
            // A value that is written back to the document is edited too.
            batch.get_mut(0).unwrap().select(&mut Selection::new(None, &[], &[]).unwrap()).ok();
            assert_eq!(unedited(&batch), [false, true], "{name}");
        }
    }

    #[test]
    fn edits_without_effect_keep_an_unedited_message() {
        let paths = |names: &[&str]| names.iter().map(|name| path(name)).collect::<Vec<_>>();
        let rename = |from: &str| [(path(from), path("b"))];
        for mut selection in [
            Selection::new(None, &paths(&["b", "a.b", "x.y.z"]), &[]),
            Selection::new(None, &[], &rename("c")),
            Selection::new(Some(&paths(&["b", "a"])), &[], &[]),
        ]
        .map(Result::unwrap)
        {
            let mut batch = decoded();
            let (bytes, nodes) = (batch.bytes().len(), batch.nodes().len());
            batch.get_mut(0).unwrap().select(&mut selection).unwrap();
            assert_eq!(unedited(&batch), [true, true], "{selection:?}");
            assert_eq!((batch.bytes().len(), batch.nodes().len()), (bytes, nodes));
        }
        let mut edits = Edits::new(&paths(&["c", "a"]), &paths(&["b", "d.e"])).unwrap();
        for (element, is_same) in [("b", true), ("c", false), ("bb", false)] {
            let mut batch = decoded();
            let write = |number, field: &mut crate::batch::FieldWriter<'_>| {
                if number == 1 {
                    field.write(|writer| writer.write_value(literal!([element]).view()));
                }
            };
            batch.get_mut(0).unwrap().edit(Part::Payload, &mut edits, write).unwrap();
            assert_eq!(unedited(&batch), [is_same, true], "{element}");
            let copy = |_, field: &mut crate::batch::FieldWriter<'_>| {
                field.copy(Part::Payload, &path("a"));
            };
            let mut itself = Edits::new(&paths(&["a"]), &[]).unwrap();
            batch.get_mut(1).unwrap().edit(Part::Payload, &mut itself, copy).unwrap();
            assert_eq!(unedited(&batch), [is_same, true]);
        }
    }

    #[test]
    fn elements_of_an_unedited_message_are_edited() {
        let mut unnest = Unnest::new(path("a"), &path("a"), false).unwrap();
        let (mut batch, mut output) = (decoded(), Output::new());
        output.unnest(&mut batch, &mut unnest);
        let batches = output.batches().chain([&batch]);
        let found: Vec<_> = batches.flat_map(unedited).collect();
        assert_eq!(found, [false, false]);
    }

    #[test]
    fn copies_and_new_metadata_keep_an_unedited_message() {
        let mut batch = decoded();
        batch
            .get_mut(0)
            .unwrap()
            .extend_metadata(|writer| {
                writer.key("x");
                writer.str("y");
            })
            .unwrap();
        batch.get_mut(1).unwrap().edit(Part::Payload, &mut edits(), |_, _| {}).unwrap();
        let mut copy = Batch::new();
        copy.push_message(b"before");
        copy.push_event(batch.get(1).unwrap());
        copy.append(batch.clone());
        assert_eq!(unedited(&batch), [true; 2]);
        assert_eq!(unedited(&copy), [true; 3]);
        assert_eq!(unedited(&batch.part(1..2)), [true]);
        assert_eq!(unedited(&batch.pick(&[1, 0])), [true; 2]);
        let mut is_first = true;
        batch.retain(|_| !std::mem::take(&mut is_first));
        assert_eq!(unedited(&batch), [true]);
    }

    #[test]
    fn encoded_events_and_other_formats_are_not_unedited() {
        let mut batch = decoded();
        let (encoded, _) = batch.encode_with(&Pool::new(1), |_, bytes| {
            bytes.push(b'-');
            Ok(())
        });
        assert!(encoded.events().iter().all(|event| event.unedited().is_none()));
        batch.events[0].flags = EventFlags(Format::Json as u8 | Format::Msgpack as u8);
        batch.events[1].flags = EventFlags(Format::Msgpack as u8);
        let formats: Vec<_> = batch.events().iter().map(Event::unedited).collect();
        assert_eq!(formats, [None, Some(Format::Msgpack)]);
    }

    /// Returns the positions of the events whose claims are confirmed.
    fn claimed(batch: &Batch, mark: Option<&Mark>) -> Vec<usize> {
        let claims = mark.map_or_else(|| batch.validate(), |mark| batch.validate_changes(mark));
        claims.unwrap().0
    }

    #[test]
    fn only_claims_of_changed_events_are_confirmed() {
        let mut batch = decoded();
        assert_eq!(claimed(&batch, None), [0, 1]);
        batch.push_message(b"raw");
        // The buffers do not move, so that the events of the mark are known.
        batch.buffers_mut().1.reserve(16);
        let mut mark = Mark::default();
        batch.mark(&mut mark);
        assert_eq!(claimed(&batch, Some(&mark)), [0; 0]);
        // An old kit keeps the claim of an event that it edits.
        let claim = batch.events[1].flags;
        let mut selection = Selection::new(None, &[path("a")], &[]).unwrap();
        batch.get_mut(1).unwrap().select(&mut selection).unwrap();
        assert_eq!(claimed(&batch, Some(&mark)), [0; 0]);
        batch.events[1].flags = claim;
        assert_eq!(claimed(&batch, Some(&mark)), [1]);
        let claims = batch.validate_changes(&mark).unwrap();
        let mut seen = Vec::new();
        batch.confirm(&claims, |format, message, payload| {
            seen.push((format, message.to_vec(), payload.to_string()));
            false
        });
        assert_eq!(seen, [(Format::Json, b"ab".to_vec(), "{}".to_owned())]);
        assert_eq!(claimed(&batch, None), [0]);
        // A claim that the event did not have before the call.
        let mut other = Batch::new();
        other.push(&literal!(["a"])).unwrap();
        other.mark(&mut mark);
        other.events[0].flags = claim;
        assert_eq!(claimed(&other, Some(&mark)), [0]);
    }
}
