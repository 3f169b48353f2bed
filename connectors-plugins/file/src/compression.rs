//! Compressed files: which they are, and what it takes to read and to write them.

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

/// The largest window that a file may ask for, as an exponent of two: 64 MiB, which is what the
/// highest preset of xz has.
const WINDOW: u32 = 26;

/// What xz data may make its reader use, in bytes: the window, and a little more.
const XZ_MEMORY: u64 = (1 << WINDOW) + (1 << 20);

/// How the file is compressed.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, tremor_pdk::serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// As the ending of its name says: `.gz`, `.zst`, `.xz`, and any other for not at all.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// gzip, `.gz`.
    Gzip,
    /// Zstandard, `.zst`.
    Zstd,
    /// xz, `.xz`.
    Xz,
}

/// A format that a file may be compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Gzip,
    Zstd,
    Xz,
}

impl Compression {
    /// The format of the file at `path`, if it is compressed.
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

impl Format {
    const fn name(self) -> &'static str {
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

    /// Some bytes as one whole member, which may come after others.
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
                // The preset's own window of 8 MiB would take 94 MiB of memory.
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

/// Reads a file and keeps count.
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

/// A file as its reader sees it: decompressed.
pub(crate) struct Input {
    state: State,
    format: Option<Format>,
    /// Shared with what counts, which is within the decompressor.
    read: Arc<AtomicU64>,
}

enum State {
    Plain(Counted),
    /// Nothing has been read yet. An empty file is that, with any name.
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

    /// How much of the file has been read, in bytes.
    pub(crate) fn position(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
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
                    io::ErrorKind::UnexpectedEof => (
                        "ends in the middle of its",
                        "it was cut, or is still being written".into(),
                    ),
                    _ => ("has corrupt", error.to_string()),
                };
                io::Error::new(
                    kind,
                    format!("it {what} {name} data, in its first {position} bytes: {why}"),
                )
            }
        })
    }
}

#[cfg(test)]
mod tests;
