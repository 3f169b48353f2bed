//! Compression of an object while it is gathered.

use std::io::{self, Write};

use flate2::{Compression as Level, write::GzEncoder};

use super::keys::Format;

/// Collects the bytes of an object, compressed if it has a format.
pub(super) enum Encoder {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    pub(super) fn new(format: Option<Format>) -> io::Result<Self> {
        Ok(match format {
            None => Self::Plain(Vec::new()),
            Some(Format::Gzip) => Self::Gzip(GzEncoder::new(Vec::new(), Level::default())),
            Some(Format::Zstd) => {
                let mut encoder =
                    zstd::stream::write::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    pub(super) const fn compresses(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Adds bytes. If `is_end` is set, no byte follows, and the output is complete.
    pub(super) fn add(self, bytes: Vec<u8>, is_end: bool) -> io::Result<Self> {
        Ok(match self {
            Self::Plain(out) if out.is_empty() => Self::Plain(bytes),
            Self::Plain(mut out) => {
                out.extend_from_slice(&bytes);
                Self::Plain(out)
            }
            Self::Gzip(mut encoder) => {
                encoder.write_all(&bytes)?;
                if is_end { Self::Plain(encoder.finish()?) } else { Self::Gzip(encoder) }
            }
            Self::Zstd(mut encoder) => {
                encoder.write_all(&bytes)?;
                if is_end { Self::Plain(encoder.finish()?) } else { Self::Zstd(encoder) }
            }
        })
    }

    fn out(&self) -> &Vec<u8> {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder.get_ref(),
            Self::Zstd(encoder) => encoder.get_ref(),
        }
    }

    fn out_mut(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        }
    }

    /// Returns the number of bytes that are ready.
    pub(super) fn len(&self) -> usize {
        self.out().len()
    }

    /// Removes the first bytes that are ready, at most `most`.
    pub(super) fn take(&mut self, most: usize) -> Vec<u8> {
        let out = self.out_mut();
        let rest = out.split_off(out.len().min(most));
        std::mem::replace(out, rest)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{Encoder, Format};

    #[test]
    fn parts_are_one_stream() {
        let lines: Vec<_> = (0..40_000).map(|number| number.to_string()).collect();
        let text = lines.join("\n");
        for format in [None, Some(Format::Gzip), Some(Format::Zstd)] {
            let mut encoder = Encoder::new(format).unwrap();
            let mut parts = Vec::new();
            let chunks: Vec<_> = text.as_bytes().chunks(10_000).collect();
            for (number, chunk) in (1..).zip(&chunks) {
                encoder = encoder.add(chunk.to_vec(), number == chunks.len()).unwrap();
                while encoder.len() > 5_000 {
                    parts.push(encoder.take(5_000));
                }
            }
            parts.push(encoder.take(usize::MAX));
            assert!(parts.len() > 5 && parts.iter().all(|part| !part.is_empty()));
            let all = parts.concat();
            let mut read = String::new();
            match format {
                None => read = String::from_utf8(all).unwrap(),
                Some(Format::Gzip) => {
                    flate2::read::GzDecoder::new(&*all).read_to_string(&mut read).unwrap();
                }
                Some(Format::Zstd) => {
                    read = String::from_utf8(zstd::stream::decode_all(&*all).unwrap()).unwrap();
                }
            }
            assert!(read == text, "{format:?}");
        }
    }
}
