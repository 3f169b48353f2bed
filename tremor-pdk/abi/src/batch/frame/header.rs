//! The header of a frame, and the checksum in it.

use std::hash::Hasher as _;

use twox_hash::XxHash3_64;

use super::{FrameError, known};
use crate::{batch::Event, document::Node};

/// The first four bytes of a frame.
pub const MAGIC: [u8; 4] = *b"TRB2";

/// Version of the layout of the header. A reader refuses every other version.
pub const LAYOUT: u8 = 1;

/// Maximum number of events of a frame. Position 65,535 of an event means "unknown".
pub const MAX_EVENTS: usize = 65_535;

/// Maximum length of a frame, in bytes.
pub const MAX_LEN: usize = 64 << 20;

/// Offset of the checksum in the header, in bytes.
const CHECKSUM_AT: usize = 56;

/// The frame contains only the nodes and bytes after its bases.
const DELTA: u16 = 1;
/// The frame has a checksum.
const CHECKSUM: u16 = 2;

/// The header of a frame. [`Header::read`] has checked all sizes, so that they agree with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Lowest minor version of the ABI that knows everything in the frame.
    pub minor: u8,
    /// Length of the header in bytes; at least 64, and a multiple of 8.
    pub header_len: u16,
    /// Length of the whole frame in bytes; a multiple of 8.
    pub total_len: u64,
    /// Number of events.
    pub events: u32,
    /// Size of an event in bytes; at least 56, and a multiple of 8.
    pub event_size: u16,
    /// Sum of flags: see [`Header::is_delta`] and [`Header::has_checksum`].
    pub flags: u16,
    /// Number of nodes in the frame.
    pub nodes: u32,
    /// Number of nodes that precede those of the frame; 0 unless the frame is a delta.
    pub base_nodes: u32,
    /// Number of bytes of text and data in the frame.
    pub bytes: u32,
    /// Number of bytes of text and data that precede those of the frame; 0 unless the frame is a delta.
    pub base_bytes: u32,
    /// Number of the call, or of the record on disk.
    pub number: u64,
    /// Random number of the run that wrote the record to disk, which is the seed of the checksum; otherwise 0.
    pub epoch: u64,
    /// Checksum of everything but these 8 bytes; 0 if the frame has none.
    pub checksum: u64,
}

impl Header {
    /// Length of a header that this version writes, in bytes.
    pub const LEN: usize = 64;

    /// Creates the header of a frame with the given contents, with number and epoch 0 and without a checksum.
    pub(super) fn new(
        minor: u8,
        [events, nodes, bytes]: [usize; 3],
        bases: Option<[usize; 2]>,
        limit: usize,
    ) -> Result<Self, FrameError> {
        if events > MAX_EVENTS {
            return Err(FrameError::TooManyEvents { events });
        }
        let [base_nodes, base_bytes] = bases.unwrap_or_default();
        let mut header = Self {
            minor,
            header_len: 64,
            total_len: 0,
            events: narrow(events)?,
            event_size: 56,
            flags: if bases.is_some() { DELTA } else { 0 },
            nodes: narrow(nodes)?,
            base_nodes: narrow(base_nodes)?,
            bytes: narrow(bytes)?,
            base_bytes: narrow(base_bytes)?,
            number: 0,
            epoch: 0,
            checksum: 0,
        };
        header.total_len = header.computed_len();
        if header.total_len > limit as u64 {
            return Err(FrameError::TooLong { len: header.total_len, limit });
        }
        Ok(header)
    }

    /// Reads the header at the beginning of `frame`, which may be incomplete after the header. Checks each field, and
    /// that the total length is the sum of the sections. Does not check the checksum: see [`verify`].
    pub fn read(frame: &[u8]) -> Result<Self, FrameError> {
        let Some(bytes) = frame.first_chunk::<{ Self::LEN }>() else {
            return Err(FrameError::Truncated { expected: Self::LEN as u64, found: frame.len() });
        };
        let fields = Fields(bytes);
        if bytes[..4] != MAGIC {
            return Err(field("magic", 0, fields.u32(0), "843207252, the text \"TRB2\""));
        }
        let header = Self {
            minor: bytes[5],
            header_len: fields.u16(6),
            total_len: fields.u64(8),
            events: fields.u32(16),
            event_size: fields.u16(20),
            flags: fields.u16(22),
            nodes: fields.u32(24),
            base_nodes: fields.u32(28),
            bytes: fields.u32(32),
            base_bytes: fields.u32(36),
            number: fields.u64(40),
            epoch: fields.u64(48),
            checksum: fields.u64(CHECKSUM_AT),
        };
        let newer = |field, found: u8, known: u8| {
            Err(FrameError::Newer { field, found: found.into(), known: known.into() })
        };
        match bytes[4] {
            LAYOUT => {}
            0 => return Err(field("layout", 4, 0_u32, "1")),
            layout => return newer("layout", layout, LAYOUT),
        }
        if header.minor > known::MINOR {
            return newer("minor", header.minor, known::MINOR);
        }
        header.check_sizes()?;
        Ok(header)
    }

    fn check_sizes(&self) -> Result<(), FrameError> {
        let multiple =
            |size: u16, least: usize| usize::from(size) >= least && size.is_multiple_of(8);
        if !multiple(self.header_len, Self::LEN) {
            let expected = "a multiple of 8 that is at least 64";
            return Err(field("header_len", 6, self.header_len, expected));
        }
        if !multiple(self.event_size, size_of::<Event>()) {
            let expected = "a multiple of 8 that is at least 56";
            return Err(field("event_size", 20, self.event_size, expected));
        }
        if self.events as usize > MAX_EVENTS {
            return Err(field("events", 16, self.events, "at most 65535"));
        }
        if self.flags & !(DELTA | CHECKSUM) != 0 {
            let expected = "a sum of 1 (delta) and 2 (checksum)";
            return Err(field("flags", 22, self.flags, expected));
        }
        for (name, offset, base) in
            [("base_nodes", 28, self.base_nodes), ("base_bytes", 36, self.base_bytes)]
        {
            if base != 0 && !self.is_delta() {
                return Err(field(name, offset, base, "0, because the frame is not a delta"));
            }
        }
        if !self.has_checksum() && self.checksum != 0 {
            let expected = "0, because the frame has no checksum";
            return Err(field("checksum", CHECKSUM_AT, self.checksum, expected));
        }
        let computed = self.computed_len();
        if self.total_len != computed {
            let expected = format!("{computed}, the sum of the sections");
            return Err(field("total_len", 8, self.total_len, expected));
        }
        if computed > MAX_LEN as u64 {
            return Err(field("total_len", 8, computed, "at most 67108864"));
        }
        Ok(())
    }

    /// Returns the length of the frame that the other fields determine. The sum cannot overflow: no product has more
    /// than 36 bits.
    fn computed_len(&self) -> u64 {
        let sections = u64::from(self.header_len)
            + u64::from(self.events) * u64::from(self.event_size)
            + u64::from(self.nodes) * size_of::<Node>() as u64
            + u64::from(self.bytes);
        sections.next_multiple_of(8)
    }

    /// Returns whether the frame contains only the nodes and bytes that were appended after its bases.
    pub const fn is_delta(&self) -> bool {
        self.flags & DELTA != 0
    }

    /// Returns whether the frame has a checksum.
    pub const fn has_checksum(&self) -> bool {
        self.flags & CHECKSUM != 0
    }

    /// Returns the header in the form in which frames contain it.
    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(4, &[LAYOUT, self.minor]);
        put(6, &self.header_len.to_le_bytes());
        put(8, &self.total_len.to_le_bytes());
        put(16, &self.events.to_le_bytes());
        put(20, &self.event_size.to_le_bytes());
        put(22, &self.flags.to_le_bytes());
        put(24, &self.nodes.to_le_bytes());
        put(28, &self.base_nodes.to_le_bytes());
        put(32, &self.bytes.to_le_bytes());
        put(36, &self.base_bytes.to_le_bytes());
        put(40, &self.number.to_le_bytes());
        put(48, &self.epoch.to_le_bytes());
        put(CHECKSUM_AT, &self.checksum.to_le_bytes());
        bytes
    }
}

/// The bytes of a header.
struct Fields<'f>(&'f [u8; Header::LEN]);

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.0[at..at + N]);
        array
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }
}

/// Returns the error for a field of the header.
fn field(
    field: &'static str,
    offset: usize,
    found: impl Into<u64>,
    expected: impl Into<String>,
) -> FrameError {
    FrameError::Field { field, offset, found: found.into(), expected: expected.into() }
}

fn narrow(count: usize) -> Result<u32, FrameError> {
    u32::try_from(count).map_err(|_| FrameError::too_long(count as u64))
}

/// Returns the bytes of the frame that begins `bytes`, whose header is `header`.
pub(super) fn whole<'f>(bytes: &'f [u8], header: &Header) -> Result<&'f [u8], FrameError> {
    let len = usize::try_from(header.total_len).unwrap_or(usize::MAX);
    bytes.get(..len).ok_or(FrameError::Truncated { expected: header.total_len, found: bytes.len() })
}

/// Sets the number and the epoch of a complete frame, computes its checksum with the epoch as seed, and stores the
/// checksum in the frame, all in place. `frame` may be followed by other bytes, which stay unchanged.
///
/// A log calls this function when it knows the number of a record. A later call replaces what an earlier call has set.
///
/// # Errors
/// Returns an error if the header is invalid or the frame is incomplete; the frame is then unchanged.
pub fn stamp(frame: &mut [u8], number: u64, epoch: u64) -> Result<(), FrameError> {
    let header = Header::read(frame)?;
    let len = whole(frame, &header)?.len();
    let header = Header { number, epoch, flags: header.flags | CHECKSUM, checksum: 0, ..header };
    frame[..Header::LEN].copy_from_slice(&header.to_bytes());
    let checksum = checksum(&frame[..len], epoch);
    frame[CHECKSUM_AT..Header::LEN].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// Checks that a complete frame was stamped with `epoch` and has not changed since. `frame` may be followed by other
/// bytes, which are ignored. Returns the header, with the number that [`stamp`] has set.
///
/// The contents of the frame are not validated: see [`decode`](super::decode()).
pub fn verify(frame: &[u8], epoch: u64) -> Result<Header, FrameError> {
    let header = Header::read(frame)?;
    let frame = whole(frame, &header)?;
    if !header.has_checksum() {
        return Err(field("flags", 22, header.flags, "a sum with 2 (checksum)"));
    }
    if header.epoch != epoch {
        return Err(field("epoch", 48, header.epoch, epoch.to_string()));
    }
    let computed = checksum(frame, epoch);
    if computed != header.checksum {
        return Err(FrameError::Checksum { stored: header.checksum, computed });
    }
    Ok(header)
}

/// Returns the XXH3-64 of everything but the checksum itself, with `epoch` as seed.
fn checksum(frame: &[u8], epoch: u64) -> u64 {
    let mut hasher = XxHash3_64::with_seed(epoch);
    hasher.write(&frame[..CHECKSUM_AT]);
    hasher.write(&frame[Header::LEN..]);
    hasher.finish()
}
