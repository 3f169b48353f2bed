//! Compressed files: format detection, decompression and compression.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::{Compression as Level, bufread::MultiGzDecoder, write::GzEncoder};
use liblzma::{
    bufread::XzDecoder,
    stream::{Check, Filters, LzmaOptions, Stream},
    write::XzEncoder,
};
use rustix::io::{ReadWriteFlags, preadv2};

/// Largest window that a compressed file may require, as an exponent of two: 64 MiB, the window of
/// the highest preset of xz.
const WINDOW: u32 = 26;

/// Memory limit of an xz decoder, in bytes: the window and 1 MiB for its other state.
const XZ_MEMORY: u64 = (1 << WINDOW) + (1 << 20);

/// Compression format of the file.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, tremor_pdk::serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Detected from the extension of the file name: `.gz`, `.zst`, `.xz`. A file with any other
    /// extension is not compressed. A file that a pattern matches is also compressed if its contents
    /// begin like gzip, zstd or xz.
    #[default]
    Auto,
    /// Not compressed.
    None,
    /// gzip, `.gz`.
    Gzip,
    /// Zstandard, `.zst`.
    Zstd,
    /// xz, `.xz`.
    Xz,
}

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Gzip,
    Zstd,
    Xz,
}

impl Compression {
    /// Returns the format of the file at `path`, or `None` if the file is not compressed.
    pub(crate) fn of(self, path: &Path) -> Option<Format> {
        match self {
            Self::None => None,
            Self::Gzip => Some(Format::Gzip),
            Self::Zstd => Some(Format::Zstd),
            Self::Xz => Some(Format::Xz),
            Self::Auto => match path.extension()?.to_str()? {
                "gz" => Some(Format::Gzip),
                "zst" => Some(Format::Zstd),
                "xz" => Some(Format::Xz),
                _ => None,
            },
        }
    }
}

/// First bytes of each format. `Err` contains the name of a format that cannot be decompressed.
const MAGIC: [(&[u8], Result<Format, &str>); 5] = [
    // The magic number is followed by the method, of which there is only one.
    (&[0x1f, 0x8b, 0x08], Ok(Format::Gzip)),
    (&[0x28, 0xb5, 0x2f, 0xfd], Ok(Format::Zstd)),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Ok(Format::Xz)),
    (&[0x04, 0x22, 0x4d, 0x18], Err("lz4")),
    (b"BZh91AY&SY", Err("bzip2")),
];

/// Number of bytes at the start of a file that [`Compression::detect`] needs.
pub(crate) const MAGIC_BYTES: usize = 10;

/// Result of the detection of a format by the first bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detected {
    Plain,
    Compressed(Format),
    /// Compressed with the named format, which is not supported.
    Unsupported(&'static str),
    /// More bytes are needed.
    Unknown,
}

impl Compression {
    /// Detects the format of the file at `path` from its first bytes `start`. The extension of the
    /// name decides if `start` does not begin like a compressed file. `is_all` is set if `start` is
    /// the whole file and the file does not grow.
    pub(crate) fn detect(self, path: &Path, start: &[u8], is_all: bool) -> Detected {
        let named = self.of(path).map_or(Detected::Plain, Detected::Compressed);
        if self != Self::Auto {
            return named;
        }
        let found = MAGIC.iter().find_map(|(magic, format)| {
            // The fourth byte of bzip2 is any digit, which is the size of its blocks.
            let is_digit = |at: usize| magic[0] == b'B' && at == 3;
            let is_same = |(at, (one, other)): (usize, (&u8, &u8))| {
                one == other || (is_digit(at) && other.is_ascii_digit())
            };
            let begins = magic.iter().zip(start).enumerate().all(is_same);
            match (begins, start.len() >= magic.len()) {
                (false, _) => None,
                (true, true) => Some(match format {
                    Ok(format) => Detected::Compressed(*format),
                    Err(name) => Detected::Unsupported(name),
                }),
                (true, false) => Some(Detected::Unknown),
            }
        });
        match found {
            Some(Detected::Unknown) if is_all => named,
            Some(found) => found,
            None => named,
        }
    }
}

impl Format {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
        }
    }

    fn decoder(self, compressed: BufReader<Counted>) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(compressed)),
            Self::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(compressed)?;
                decoder.window_log_max(WINDOW)?;
                Box::new(decoder)
            }
            Self::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
                Box::new(XzDecoder::new_stream(compressed, stream))
            }
        })
    }

    /// Compresses the `runs` of `bytes` into one complete member, which can be appended to other
    /// members.
    pub(crate) fn member(self, bytes: &[u8], runs: &[Range<usize>]) -> io::Result<Vec<u8>> {
        let length: usize = runs.iter().map(Range::len).sum();
        let out = Vec::with_capacity(64 + length / 4);
        let runs = runs.iter().map(|run| &bytes[run.clone()]);
        match self {
            Self::Gzip => {
                let mut encoder = GzEncoder::new(out, Level::default());
                write_all(&mut encoder, runs)?;
                encoder.finish()
            }
            Self::Zstd => {
                let mut encoder = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                encoder.set_pledged_src_size(Some(length as u64))?;
                write_all(&mut encoder, runs)?;
                encoder.finish()
            }
            Self::Xz => {
                // Use a window as short as the data: the default window of this preset, 8 MiB,
                // needs 94 MiB of memory.
                let window = length.next_power_of_two().clamp(4 << 10, 8 << 20);
                let mut options = LzmaOptions::new_preset(6)?;
                options.dict_size(u32::try_from(window).unwrap_or(8 << 20));
                let filters = &mut Filters::new();
                let stream = Stream::new_stream_encoder(filters.lzma2(&options), Check::Crc64)?;
                let mut encoder = XzEncoder::new_stream(out, stream);
                write_all(&mut encoder, runs)?;
                encoder.finish()
            }
        }
    }
}

fn write_all<'b>(out: &mut impl Write, mut runs: impl Iterator<Item = &'b [u8]>) -> io::Result<()> {
    runs.try_for_each(|run| out.write_all(run))
}

/// Reads a file and counts the bytes.
struct Counted {
    file: Arc<File>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&*self.file).read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Contents of a file, decompressed if the file has a format.
pub(crate) struct Input {
    state: State,
    format: Option<Format>,
    /// Number of bytes read from the file, shared with the `Counted` inside the decompressor.
    read: Arc<AtomicU64>,
}

enum State {
    Plain(Counted),
    /// Not read yet. An empty file has no events, even if its format is a compressed one.
    Start(BufReader<Counted>),
    Compressed(Box<dyn Read + Send>),
    End,
}

impl Input {
    pub(crate) fn new(file: Arc<File>, format: Option<Format>) -> Self {
        let read: Arc<AtomicU64> = Arc::default();
        let counted = Counted { file, read: read.clone() };
        let state = match format {
            None => State::Plain(counted),
            Some(_) => State::Start(BufReader::with_capacity(64 << 10, counted)),
        };
        Self { state, format, read }
    }

    /// Returns whether the file is decompressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.format.is_some()
    }

    /// Returns the number of bytes read from the file, before decompression.
    pub(crate) fn position(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Reads the part of an uncompressed file that is in the page cache. Returns `None` if the read would wait for the
    /// disk, at the end of the file, on an error, and if the file system cannot tell. Does not block.
    pub(crate) fn read_cached(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let State::Plain(Counted { file, read }) = &self.state else { return None };
        // The offset `u64::MAX` stands for the position of the file, which the call moves.
        let mut buffers = [io::IoSliceMut::new(buffer)];
        let count = preadv2(file, &mut buffers, u64::MAX, ReadWriteFlags::NOWAIT).ok()?;
        read.fetch_add(count as u64, Ordering::Relaxed);
        (count > 0).then_some(count)
    }

    fn decompress(&mut self, buffer: &mut [u8], format: Format) -> io::Result<usize> {
        if let State::Start(compressed) = &mut self.state {
            let is_empty = compressed.fill_buf()?.is_empty();
            let state = std::mem::replace(&mut self.state, State::End);
            if let (State::Start(compressed), false) = (state, is_empty) {
                self.state = State::Compressed(format.decoder(compressed)?);
            }
        }
        match &mut self.state {
            State::Compressed(decoder) => decoder.read(buffer),
            State::Plain(_) | State::Start(_) | State::End => Ok(0),
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let format = match (&mut self.state, self.format) {
            (State::Plain(file), _) => return file.read(buffer),
            (_, None) => return Ok(0),
            (_, Some(format)) => format,
        };
        self.decompress(buffer, format).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            kind => {
                let (name, position) = (format.name(), self.position());
                let (what, why) = match kind {
                    io::ErrorKind::UnexpectedEof => {
                        ("truncated", "the file was cut, or is still being written".into())
                    }
                    _ => ("corrupt", error.to_string()),
                };
                io::Error::new(
                    kind,
                    format!("{what} {name} data in the first {position} bytes of the file: {why}"),
                )
            }
        })
    }
}

#[cfg(test)]
mod tests;
