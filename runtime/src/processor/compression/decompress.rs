//! The preprocessors that decompress.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tremor_abi::batch::Cutter;
use tremor_pdk::{Component, ComponentContext, Error, Result};

use super::{
    Decode,
    budget::{Budget, Part},
    gzip, lz4,
    room::{Room, too_large},
    snappy, sniff, xz, zstd,
};
use crate::processor::{
    max_length,
    streams::{Cut, States, Streams},
};

/// The most that a message may become in any configuration, in bytes.
const MESSAGE: usize = 1 << 30;

/// Decompresses. A stream is decompressed as it comes, members one after the other; a whole
/// message is decompressed by itself.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// The most that a whole message may become, in bytes. More goes to `err`.
    #[serde(default = "max_length")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_bytes: usize,
    /// The largest window or dictionary that a stream may ask for, in bytes, and about the most that
    /// those of all streams may take; that grows with what is read of them.
    #[serde(default = "max_memory")]
    #[schemars(range(min = 1))]
    max_memory: usize,
}

/// Decompresses snappy.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct SnappyConfig {
    /// The most that a whole message, or a raw block, may become, in bytes. More goes to `err`.
    #[serde(default = "max_length")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_bytes: usize,
    /// The most that the decompressors of all streams may take, in bytes. It grows with what is
    /// read of them.
    #[serde(default = "max_memory")]
    #[schemars(range(min = 1))]
    max_memory: usize,
    /// What the data looks like.
    #[serde(default)]
    format: SnappyFormat,
}

/// The forms of snappy data.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(in crate::processor) enum SnappyFormat {
    /// The framing format: chunks with checksums.
    #[default]
    Framed,
    /// One block, as Kafka, Parquet and Prometheus have it: a whole message, or a stream up to its
    /// end.
    Raw,
}

/// The largest window that the usual presets of any format ask for.
const fn max_memory() -> usize {
    64 << 20
}

/// What a decompressor takes at most besides its window, in bytes.
const BESIDE: usize = 2 << 20;

/// A format as flows name it.
pub(crate) trait Format: Send + 'static {
    const NAME: &'static str;
    type Config: DeserializeOwned + JsonSchema;

    /// The limits, and how a decompressor is made.
    fn configure(config: Self::Config) -> (Limits, Make);
    /// Whether a message can be told to be none of the format's, and is handed on.
    fn passes(message: &[u8]) -> bool {
        let _ = message;
        false
    }
}

/// How much may become of what.
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
                    (Limits { message: $it.max_bytes, memory: $it.max_memory }, $make)
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
    DecompressZstd Zstd "zstd" Config |it| Box::new(move || Box::new(zstd::decoder(it.max_memory)));
    DecompressLz4 Lz4 "lz4" Config |it| Box::new(|| Box::new(lz4::decoder()));
    DecompressXz Xz "xz" Config |it| Box::new(move || Box::new(xz::decoder(it.max_memory)));
    DecompressSnappy Snappy "snappy" SnappyConfig |it| match it.format {
        SnappyFormat::Framed => Box::new(|| Box::new(snappy::decoder())),
        SnappyFormat::Raw => Box::new(move || Box::new(snappy::Raw::new(it.max_bytes))),
    };
    DecompressAny Any "decompress" Config
        |it| Box::new(move || Box::new(sniff::Sniffing::new(it.max_memory))),
        passes |message| !matches!(sniff::format(message), sniff::Found::Format(_));
}

/// The preprocessor.
pub(crate) struct Decompress<F> {
    max_bytes: usize,
    make: Make,
    /// For whole messages; none before the first, and where the last has failed.
    message: Option<Box<dyn Decode>>,
    budget: Budget,
    room: Room,
    format: PhantomData<F>,
}

/// A stream that has begun.
pub(crate) struct Stream {
    part: Part,
    state: State,
}

enum State {
    Open(Box<dyn Decode>),
    /// Nothing can be told of what comes after the place where it failed: of so many bytes.
    Lost(u64),
}

impl<F: Format> Component for Streams<Decompress<F>> {
    const NAME: &str = F::NAME;
    type Config = F::Config;

    fn new(config: F::Config, context: ComponentContext) -> Result<Self> {
        let (Limits { message, memory }, make) = F::configure(config);
        for (name, value, most) in
            [("max_bytes", message, MESSAGE), ("max_memory", memory, usize::MAX)]
        {
            if !(1..=most).contains(&value) {
                return Err(Error::configuration(format_args!(
                    "`{name}`: expected a number from 1 to {most}, found {value}"
                )));
            }
        }
        Ok(Self::cutting(Decompress {
            max_bytes: message,
            make,
            message: None,
            budget: Budget::new(memory.saturating_add(BESIDE), context.memory()),
            room: Room::default(),
            format: PhantomData,
        }))
    }
}

impl<F: Format> Cut for Decompress<F> {
    type State = Stream;

    fn cut(&mut self, states: &mut States<Stream>, cutter: &mut Cutter<'_>) {
        if cutter.event().is_stream_end() {
            self.end(states, cutter);
        } else if cutter.event().is_fragment() {
            self.fragment(states, cutter);
        } else {
            self.message(cutter);
        }
    }

    fn is_unfinished(stream: &Stream) -> bool {
        matches!(&stream.state, State::Open(decode) if !decode.may_end())
    }
}

impl<F: Format> Decompress<F> {
    fn fragment(&mut self, states: &mut States<Stream>, cutter: &mut Cutter<'_>) {
        let length = cutter.payload().len();
        let stream = states.entry(cutter.event().stream).or_insert_with(|| {
            let state = State::Open((self.make)());
            Stream { part: Part::default(), state }
        });
        let Stream { part, state } = stream;
        let decode = match state {
            State::Open(decode) => decode,
            State::Lost(bytes) => {
                *bytes += length as u64;
                return;
            }
        };
        self.room.clear(cutter.room());
        let pushed = decode.push(cutter.payload(), &mut self.room);
        let start = part.read;
        self.budget.read(part, pushed.as_ref().map_or(length, |taken| *taken));
        if !self.room.bytes().is_empty() {
            cutter.emit_fragment(self.room.bytes());
        }
        let admitted = self.budget.take(part, decode.memory());
        match pushed.and_then(|taken| admitted.map(|()| taken)) {
            Ok(taken) if self.room.is_full() => cutter.leave(taken),
            Ok(_) => {}
            Err(error) => {
                let context = format!(
                    "the rest of the stream is lost, from its bytes {start} to {} on",
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
                    self.room.clear(self.max_bytes);
                    let result = decode.end(&mut self.room);
                    if !self.room.bytes().is_empty() {
                        cutter.emit_fragment(self.room.bytes());
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
        let Self { message, make, room, max_bytes, .. } = self;
        let decode = message.get_or_insert_with(|| make());
        room.clear(*max_bytes + 1);
        let pushed = decode.push(cutter.payload(), room);
        let ended = pushed.and_then(|_| {
            if room.is_full() { Err(too_large(*max_bytes)) } else { decode.end(room) }
        });
        match ended {
            Ok(()) => cutter.emit_joined(room.bytes(), 0..0),
            Err(error) => {
                *message = None;
                cutter.refuse(error);
            }
        }
    }
}
