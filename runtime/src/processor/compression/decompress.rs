//! The preprocessors that decompress.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tremor_abi::batch::Cutter;
use tremor_pdk::{
    Component, ComponentContext, Error, Result,
    units::{MessageBytes, Size},
};

use super::{
    Decode,
    budget::{Budget, Part},
    buffer::{LimitedBuffer, too_large},
    gzip, lz4, snappy, sniff, xz, zstd,
};
use crate::processor::{
    max_length,
    streams::{Cut, States, Streams},
};

/// Decompresses data. A stream is decompressed while it arrives, and may contain several members; a whole message is
/// decompressed separately.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Maximum size of a decompressed whole message in bytes. Larger messages go to `err`.
    #[serde(default = "max_length")]
    max_bytes: MessageBytes,
    /// Maximum window or dictionary of a stream in bytes, and approximate maximum of those of all streams together. The
    /// maximum for all streams grows with the input that was read.
    #[serde(default = "max_memory")]
    max_memory: Size,
}

/// Decompresses snappy data.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct SnappyConfig {
    /// Maximum size of a decompressed whole message or raw block in bytes. Larger ones go to `err`.
    #[serde(default = "max_length")]
    max_bytes: MessageBytes,
    /// Maximum memory of the decompressors of all streams in bytes. The maximum grows with the input that was read.
    #[serde(default = "max_memory")]
    max_memory: Size,
    /// Format of the compressed data.
    #[serde(default)]
    format: SnappyFormat,
}

/// The formats of snappy data.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(in crate::processor) enum SnappyFormat {
    /// The framing format: chunks with checksums.
    #[default]
    Framed,
    /// A single block, as used by Kafka, Parquet and Prometheus: a whole message, or a stream up to its end.
    Raw,
}

/// Returns the default of `max_memory`, the largest window of the usual presets of any format.
const fn max_memory() -> Size {
    Size::of_bytes(64 << 20)
}

fn in_memory(size: Size) -> usize {
    usize::try_from(size.get()).unwrap_or(usize::MAX)
}

/// Maximum memory of a decompressor in addition to its window, in bytes.
const BESIDE: usize = 2 << 20;

/// A format with the name that flows use.
pub(crate) trait Format: Send + 'static {
    const NAME: &'static str;
    type Config: DeserializeOwned + JsonSchema;

    /// Returns the limits, and the constructor of decompressors.
    fn configure(config: Self::Config) -> (Limits, Make);
    /// Returns whether a whole message is recognisably not in this format, so that it passes unchanged.
    fn passes(message: &[u8]) -> bool {
        let _ = message;
        false
    }
}

/// Limits from a configuration.
pub(crate) struct Limits {
    message: usize,
    memory: usize,
}

type Make = Box<dyn Fn() -> Box<dyn Decode> + Send>;

macro_rules! formats {
    ($($plugin:ident $format:ident $name:literal $config:ident |$it:ident| $make:expr $(, passes $passes:expr)?;)*) => {
        $(
            pub(crate) type $plugin = Streams<Decompress<$format>>;
            pub(crate) struct $format;
            impl Format for $format {
                const NAME: &'static str = $name;
                type Config = $config;

                fn configure($it: $config) -> (Limits, Make) {
                    (Limits { message: $it.max_bytes.get(), memory: in_memory($it.max_memory) }, $make)
                }
                $(fn passes(message: &[u8]) -> bool {
                    $passes(message)
                })?
            }
        )*
    };
}

formats! {
    DecompressGzip Gzip "gzip" Config |it| Box::new(|| Box::new(gzip::decoder()));
    DecompressZstd Zstd "zstd" Config |it| Box::new(move || Box::new(zstd::decoder(in_memory(it.max_memory))));
    DecompressLz4 Lz4 "lz4" Config |it| Box::new(|| Box::new(lz4::decoder()));
    DecompressXz Xz "xz" Config |it| Box::new(move || Box::new(xz::decoder(in_memory(it.max_memory))));
    DecompressSnappy Snappy "snappy" SnappyConfig |it| match it.format {
        SnappyFormat::Framed => Box::new(|| Box::new(snappy::decoder())),
        SnappyFormat::Raw => Box::new(move || Box::new(snappy::Raw::new(it.max_bytes.get()))),
    };
    DecompressAny Any "decompress" Config
        |it| Box::new(move || Box::new(sniff::Sniffing::new(in_memory(it.max_memory)))),
        passes |message| !matches!(sniff::format(message), sniff::Found::Format(_));
}

/// The preprocessor of a format.
pub(crate) struct Decompress<F> {
    max_bytes: usize,
    make: Make,
    /// Decompressor for whole messages; `None` before the first message and after a failure.
    message: Option<Box<dyn Decode>>,
    budget: Budget,
    buffer: LimitedBuffer,
    format: PhantomData<F>,
}

/// A stream that has begun.
pub(crate) struct Stream {
    part: Part,
    state: State,
}

enum State {
    Open(Box<dyn Decode>),
    /// The stream failed, and the data after the failure cannot be decompressed. The field is the number of bytes of
    /// this data.
    Lost(u64),
}

impl<F: Format> Component for Streams<Decompress<F>> {
    const NAME: &str = F::NAME;
    type Config = F::Config;

    fn new(config: F::Config, context: ComponentContext) -> Result<Self> {
        let (Limits { message, memory }, make) = F::configure(config);
        Ok(Self::cutting(Decompress {
            max_bytes: message,
            make,
            message: None,
            budget: Budget::new(memory.saturating_add(BESIDE), context.memory()),
            buffer: LimitedBuffer::default(),
            format: PhantomData,
        }))
    }
}

impl<F: Format> Cut for Decompress<F> {
    type State = Stream;

    fn is_unfinished(stream: &Stream) -> bool {
        matches!(&stream.state, State::Open(decode) if !decode.may_end())
    }

    fn fragment(&mut self, states: &mut States<Stream>, cutter: &mut Cutter<'_>) {
        let length = cutter.payload().len();
        let stream = states.entry(cutter.event().stream).or_insert_with(|| {
            let state = State::Open((self.make)());
            Stream { part: Part::default(), state }
        });
        let Stream { part, state } = stream;
        let decode = match state {
            State::Open(decode) => {
                if !decode.may_end() {
                    // The member begins in an earlier event, from which on its data has to be read again.
                    cutter.forget_position();
                }
                decode
            }
            State::Lost(bytes) => {
                *bytes += length as u64;
                return;
            }
        };
        self.buffer.clear(cutter.capacity());
        let pushed = decode.push(cutter.payload(), &mut self.buffer);
        let start = part.read;
        self.budget.read(part, pushed.as_ref().map_or(length, |taken| *taken));
        if !self.buffer.bytes().is_empty() {
            cutter.emit_fragment(self.buffer.bytes());
        }
        let admitted = self.budget.take(part, decode.memory());
        match pushed.and_then(|taken| admitted.map(|()| taken)) {
            Ok(taken) if self.buffer.is_full() => cutter.leave(taken),
            Ok(_) => {}
            Err(error) => {
                let context = format!(
                    "the remainder of the stream is lost, from its bytes {start} to {} on",
                    start + length as u64
                );
                cutter.refuse(error.context(context));
                self.budget.give_back(part);
                *stream = Stream { part: Part::default(), state: State::Lost(0) };
            }
        }
    }

    fn end(&mut self, states: &mut States<Stream>, cutter: &mut Cutter<'_>) {
        if let Some(Stream { part, state }) = states.remove(&cutter.event().stream) {
            self.budget.give_back(&part);
            let (read, is_aborted) = (part.read, cutter.event().is_stream_aborted());
            let ended = match state {
                State::Open(decode) if is_aborted && decode.may_end() => Ok(()),
                State::Open(_) if is_aborted => Err(Error::connection_lost(format_args!(
                    "the stream was cut off within its {} data, after {read} bytes",
                    F::NAME
                ))),
                State::Open(mut decode) => {
                    self.buffer.clear(self.max_bytes);
                    let result = decode.end(&mut self.buffer);
                    if !self.buffer.bytes().is_empty() {
                        cutter.emit_fragment(self.buffer.bytes());
                    }
                    result.map_err(|error| {
                        error.context(format_args!("the stream ends after {read} bytes"))
                    })
                }
                State::Lost(0) => Ok(()),
                State::Lost(bytes) => Err(Error::bad_data(format_args!(
                    "{bytes} bytes after the failure of the stream were not decompressed"
                ))),
            };
            if let Err(error) = ended {
                cutter.reject(b"", error);
            }
        }
        cutter.pass();
    }

    fn message(&mut self, cutter: &mut Cutter<'_>) {
        if F::passes(cutter.payload()) {
            return cutter.pass();
        }
        let Self { message, make, buffer, max_bytes, budget, .. } = self;
        let decode = message.get_or_insert_with(|| make());
        buffer.clear(*max_bytes + 1);
        let pushed = decode.push(cutter.payload(), buffer);
        let ended = pushed.and_then(|_| {
            if buffer.is_full() { Err(too_large(*max_bytes)) } else { decode.end(buffer) }
        });
        match ended {
            Ok(()) => cutter.emit_with_end(buffer.bytes(), buffer.bytes().len()),
            Err(error) => {
                *message = None;
                cutter.refuse(error);
            }
        }
        // The output was copied into the batch.
        buffer.clear(0);
        budget
            .set_message(message.as_ref().map_or(0, |decode| decode.memory()) + buffer.capacity());
    }
}
