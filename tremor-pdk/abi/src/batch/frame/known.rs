//! The kinds and flags that frames may contain, by the minor version that added them, and the check of events.

use super::{FrameError, Medium};
use crate::{
    batch::{Event, EventFlags, Format, PayloadKind, event::Location},
    document::{Node, NodeKind},
    version::AbiVersion,
};

/// Kinds and flags that a minor version of the ABI knows, each as a set of bits.
struct Known {
    /// Kinds of payloads in frames; bit `n` stands for kind `n`.
    payloads: u32,
    /// Flags of events.
    flags: u8,
    /// Kinds of nodes; bit `n` stands for kind `n`.
    nodes: u32,
}

/// Kinds and flags by minor version, each with those of the earlier versions. The length of the array enforces that a
/// new minor version adds a row.
const VERSIONS: [Known; AbiVersion::CURRENT.minor as usize + 1] =
    [FIRST, Known { flags: FIRST.flags | EventFlags::FORGOTTEN.0, ..FIRST }];

const FIRST: Known = Known {
    payloads: bit(PayloadKind::NONE.0) | bit(PayloadKind::RAW.0) | bit(PayloadKind::DOCUMENT.0),
    flags: EventFlags::FRAGMENT.0
        | EventFlags::STREAM_END.0
        | EventFlags::STREAM_ABORTED.0
        | Format::BITS,
    nodes: (bit(NodeKind::NUMBER.0) << 1) - 1,
};

/// Highest minor version whose frames this version reads.
#[allow(clippy::cast_possible_truncation)] // checked by the assertion
pub(super) const MINOR: u8 = AbiVersion::CURRENT.minor as u8;

const _: () =
    assert!(VERSIONS.len() <= u8::MAX as usize + 1, "the minor version of a frame is one byte");

const CURRENT: &Known = &VERSIONS[VERSIONS.len() - 1];

/// `true` if a minor version has added kinds of nodes, so that the nodes of a frame determine its minor version.
const NODES_DIFFER: bool = VERSIONS[0].nodes != CURRENT.nodes;

/// Returns the bit of a kind. All kinds above 30 share a bit, which no version knows.
const fn bit(kind: u8) -> u32 {
    1 << if kind > 30 { 31 } else { kind }
}

/// The bit of [`Seen`] for events without the flag of a format.
const NO_FORMAT: u8 = 1;
/// The bits of [`Seen`] for events with at most one of the flags of formats.
const ONE_FORMAT: u8 = 0b111;

/// The side that checks events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Writes the events to a frame, which includes the conversion of values to documents.
    Writer,
    /// Has read the events from a frame.
    Reader,
}

/// The kinds and flags that occur in the events of a batch or frame.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    payloads: u32,
    flags: u8,
    /// An event is unedited: see [`Event::unedited`].
    pub(super) is_unedited: bool,
    /// The message of an event must not be shown: see [`EventFlags::FORGOTTEN`].
    pub(super) is_forgotten: bool,
    /// An event refers to the table of values.
    pub(super) is_in_table: bool,
    /// Flags of formats that raw events have; bit `n` stands for the sum `8 * n`.
    raw_formats: u8,
    /// Flags of formats that other events have.
    other_formats: u8,
}

impl Seen {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut seen = Self::default();
        for event in events {
            seen.payloads |= bit(event.kind.0);
            seen.flags |= event.flags.0;
            seen.is_unedited |= event.unedited().is_some();
            seen.is_forgotten |= event.is_forgotten();
            seen.is_in_table |= event.kind == PayloadKind::VALUE
                || is_in_table(event.metadata)
                || is_in_table(event.origin);
            if event.kind == PayloadKind::RAW {
                seen.raw_formats |= format_bit(event);
            } else {
                seen.other_formats |= format_bit(event);
            }
        }
        seen
    }

    /// Checks that a frame for `medium` may contain the events.
    pub(super) fn check(
        self,
        events: &[Event],
        medium: Medium,
        side: Side,
    ) -> Result<(), FrameError> {
        let has_table = side == Side::Writer;
        let mut allowed = CURRENT.payloads;
        if medium == Medium::Disk {
            allowed &= !bit(PayloadKind::NONE.0);
        }
        if has_table {
            allowed |= bit(PayloadKind::VALUE.0);
        }
        // A record has unedited events as raw events, and nothing else has raw events with the flag of a format.
        let [raw, other] = if (side, medium) == (Side::Reader, Medium::Disk) {
            [ONE_FORMAT, NO_FORMAT]
        } else {
            [NO_FORMAT, ONE_FORMAT]
        };
        let is_valid = self.payloads & !allowed == 0
            && self.flags & !CURRENT.flags == 0
            && (has_table || !self.is_in_table)
            && self.raw_formats & !raw == 0
            && self.other_formats & !other == 0;
        if is_valid {
            return Ok(());
        }
        for (position, event) in events.iter().enumerate() {
            let flags = event.flags.0;
            let formats = if event.kind == PayloadKind::RAW { raw } else { other };
            let fault = if bit(event.kind.0) & !allowed != 0 {
                kind_fault(event.kind, medium)
            } else if flags & !CURRENT.flags != 0 {
                format!("has unknown flags: {flags:#04x}, expected a sum of 1, 2, 4, 8, 16 and 32")
            } else if !has_table && is_in_table(event.metadata) {
                let word = event.metadata;
                format!("has metadata {word:#x}, expected 0 or a number with the topmost bit")
            } else if !has_table && is_in_table(event.origin) {
                let word = event.origin;
                format!("has the origin {word:#x}, expected 0 or a number with the topmost bit")
            } else if format_bit(event) & !ONE_FORMAT != 0 {
                format!(
                    "has the flags of two formats ({flags:#04x}), expected at most one of 8 and 16"
                )
            } else if format_bit(event) & !formats == 0 {
                continue;
            } else if event.kind == PayloadKind::RAW {
                format!(
                    "is raw and has flag 8 or 16 ({flags:#04x}), which only records on disk may have"
                )
            } else {
                format!(
                    "has flag 8 or 16 ({flags:#04x}) and is not raw, unlike unedited events on disk"
                )
            };
            return Err(FrameError::Event { position, fault });
        }
        Ok(())
    }

    /// Returns the lowest minor version that knows the events and `nodes`.
    pub(super) fn minor(self, nodes: [&[Node]; 2]) -> u8 {
        let mut kinds = 0;
        if NODES_DIFFER {
            kinds = nodes.into_iter().flatten().fold(0, |kinds, node| kinds | bit(node.kind().0));
        }
        let payloads = self.payloads & !bit(PayloadKind::VALUE.0);
        let knows = |known: &Known| {
            payloads & !known.payloads == 0
                && self.flags & !known.flags == 0
                && kinds & !known.nodes == 0
        };
        let lowest = VERSIONS.iter().position(knows).and_then(|minor| u8::try_from(minor).ok());
        lowest.unwrap_or(MINOR)
    }
}

fn kind_fault(kind: PayloadKind, medium: Medium) -> String {
    match kind {
        PayloadKind::NONE if medium == Medium::Disk => {
            "is the end of a stream, which a record on disk must not contain".to_owned()
        }
        PayloadKind::VALUE => "has an edited value, which a frame must not contain".to_owned(),
        PayloadKind(kind) => format!("has an unknown kind of payload, {kind}"),
    }
}

#[inline]
const fn is_in_table(word: u32) -> bool {
    Location::new(word).value().is_some()
}

/// Returns the bit for the flags of formats that an event has.
#[inline]
const fn format_bit(event: &Event) -> u8 {
    1 << ((event.flags.0 & Format::BITS) / Format::Json as u8)
}

/// Returns whether the event is stored without its nodes: raw, with the flag of a format.
#[inline]
pub(super) fn is_stored(event: &Event) -> bool {
    event.kind == PayloadKind::RAW && event.flags.0 & Format::BITS != 0
}
