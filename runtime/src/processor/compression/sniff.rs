//! Detection of formats by their first bytes.

use tremor_pdk::Error;

use super::{Decode, buffer::LimitedBuffer, gzip, lz4, snappy, xz, zstd};

/// A format with a magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Gzip,
    Zlib,
    Zstd,
    Lz4,
    Snappy,
    Xz,
}

/// The first bytes of each format. Skippable frames, which zstd and lz4 share, do not identify the format, so they are
/// omitted. The header of zlib for fast compression is omitted too, because a text may begin with its two bytes, `x^`.
const MAGIC: [(&[u8], Format); 8] = [
    // The two bytes of the magic number are followed by the method, of which only one exists.
    (&[0x1f, 0x8b, 0x08], Format::Gzip),
    (&[0x78, 0x01], Format::Zlib),
    (&[0x78, 0x9c], Format::Zlib),
    (&[0x78, 0xda], Format::Zlib),
    (&[0x28, 0xb5, 0x2f, 0xfd], Format::Zstd),
    (&[0x04, 0x22, 0x4d, 0x18], Format::Lz4),
    (b"\xff\x06\x00\x00sNaPpY", Format::Snappy),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Format::Xz),
];

/// Length in bytes of the longest magic number.
const LONGEST: usize = 10;

/// The result of a detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Format(Format),
    /// The data is in none of the formats.
    None,
    /// The data is too short for a decision.
    Unknown,
}

pub(super) fn format(start: &[u8]) -> Found {
    let exact = MAGIC.iter().find(|(magic, _)| start.starts_with(magic));
    let possible = MAGIC.iter().any(|(magic, _)| magic.starts_with(start));
    match (exact, possible) {
        (Some((_, format)), _) => Found::Format(*format),
        (None, true) => Found::Unknown,
        (None, false) => Found::None,
    }
}

impl Format {
    fn decoder(self, max_memory: usize) -> Box<dyn Decode> {
        match self {
            Self::Gzip => Box::new(gzip::decoder()),
            Self::Zlib => Box::new(gzip::zlib_decoder()),
            Self::Zstd => Box::new(zstd::decoder(max_memory)),
            Self::Lz4 => Box::new(lz4::decoder()),
            Self::Snappy => Box::new(snappy::decoder()),
            Self::Xz => Box::new(xz::decoder(max_memory)),
        }
    }
}

/// Decompresses data that starts like one of the formats, and passes other data unchanged.
pub(super) struct Sniffing {
    /// Bytes received before the format was detected.
    start: Vec<u8>,
    found: Option<Box<dyn Decode>>,
    max_memory: usize,
}

impl Sniffing {
    pub(super) fn new(max_memory: usize) -> Self {
        Self { start: Vec::new(), found: None, max_memory }
    }
}

impl Decode for Sniffing {
    fn push(&mut self, input: &[u8], out: &mut LimitedBuffer) -> Result<usize, Error> {
        if let Some(found) = &mut self.found {
            return found.push(input, out);
        }
        let known = self.start.len();
        self.start.extend_from_slice(&input[..input.len().min(LONGEST)]);
        let found = format(&self.start);
        if found == Found::Unknown {
            return Ok(input.len());
        }
        // The bytes before this input are few, so the decoder consumes all of them.
        let start = std::mem::take(&mut self.start);
        let found: Box<dyn Decode> = if let Found::Format(format) = found {
            let mut decoder = format.decoder(self.max_memory);
            decoder.push(&start[..known], out)?;
            decoder
        } else {
            out.append(&start[..known]);
            Box::new(Plain)
        };
        self.found.insert(found).push(input, out)
    }

    fn memory(&self) -> usize {
        self.start.capacity() + self.found.as_ref().map_or(0, |found| found.memory())
    }

    fn may_end(&self) -> bool {
        self.start.is_empty() && self.found.as_ref().is_none_or(|found| found.may_end())
    }

    fn end(&mut self, out: &mut LimitedBuffer) -> Result<(), Error> {
        let start = std::mem::take(&mut self.start);
        if let Some(mut found) = self.found.take() {
            return found.end(out);
        }
        out.append(&start);
        Ok(())
    }
}

struct Plain;

impl Decode for Plain {
    fn push(&mut self, input: &[u8], out: &mut LimitedBuffer) -> Result<usize, Error> {
        Ok(out.take(input))
    }

    fn memory(&self) -> usize {
        0
    }

    fn may_end(&self) -> bool {
        true
    }

    fn end(&mut self, _out: &mut LimitedBuffer) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, Found, format};

    #[test]
    fn format_is_detected_from_the_fewest_bytes() {
        for (start, expected) in [
            (&b""[..], Found::Unknown),
            (b"\x1f", Found::Unknown),
            (b"\x1f\x8b", Found::Unknown),
            (b"\x1f\x8b\x08", Found::Format(Format::Gzip)),
            (b"\x1f\x8b\x07", Found::None),
            (b"\xff\x06\x00\x00sNaPp", Found::Unknown),
            (b"\xff\x06\x00\x00sNaPpY...", Found::Format(Format::Snappy)),
            (b"\xfd7zXZ\0", Found::Format(Format::Xz)),
            (b"x", Found::Unknown),
            (b"x\x9c", Found::Format(Format::Zlib)),
            (b"x^2", Found::None),
            (b"xylem", Found::None),
            (b"{", Found::None),
        ] {
            assert_eq!(format(start), expected, "{start:?}");
        }
    }
}
