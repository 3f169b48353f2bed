//! The preprocessors that decompress.

use std::{collections::HashMap, marker::PhantomData};

use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use tremor_pdk::{
    Batch, Error, Output, Preprocessor, PreprocessorPlugin, Result, abi::batch::Cutter,
};

use super::{Decode, gzip, lz4, room::Room, snappy, sniff, xz, zstd};
use crate::processor::reassembly::{self, SHOWN};

/// The most that one batch may become, in bytes: a batch holds less than 4 GiB, and there may be
/// several decompressors.
const BATCH: usize = 1 << 30;

/// Decompresses. A stream is decompressed as it comes, members one behind the other; a whole
/// message is decompressed by itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::processor) struct Config {
    /// The most that a message, or what a stream brings at a time, may become, in bytes. More goes
    /// to `err`.
    #[serde(default = "max_bytes")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_bytes: usize,
}

/// Decompresses snappy.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::processor) struct SnappyConfig {
    /// The most that a message, or what a stream brings at a time, may become, in bytes. More goes
    /// to `err`.
    #[serde(default = "max_bytes")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_bytes: usize,
    /// What the data looks like.
    #[serde(default)]
    format: SnappyFormat,
}

/// The forms of snappy data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::processor) enum SnappyFormat {
    /// The framing format: chunks with checksums.
    #[default]
    Framed,
    /// One block, as Kafka, Parquet and Prometheus have it: a whole message, or a stream up to its
    /// end.
    Raw,
}

const fn max_bytes() -> usize {
    64 << 20
}

/// A format as flows name it.
pub(in crate::processor) trait Format: Send + 'static {
    const NAME: &'static str;
    type Config: DeserializeOwned + JsonSchema;

    /// The limit, and how a decompressor is made.
    fn configure(config: Self::Config) -> (usize, Make);
    /// Whether a message can be told to be none of the format's, and is handed on.
    fn passes(message: &[u8]) -> bool {
        let _ = message;
        false
    }
}

type Make = Box<dyn Fn() -> Box<dyn Decode> + Send>;

macro_rules! formats {
    ($($plugin:ident $format:ident $name:literal $config:ident |$it:ident| $make:expr $(, passes $passes:expr)?;)*) => {
        $(
            pub(in crate::processor) type $plugin = Decompress<$format>;
            pub(in crate::processor) struct $format;
            impl Format for $format {
                const NAME: &'static str = $name;
                type Config = $config;

                fn configure($it: $config) -> (usize, Make) {
                    ($it.max_bytes, $make)
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
    DecompressZstd Zstd "zstd" Config |it| Box::new(|| Box::new(zstd::decoder()));
    DecompressLz4 Lz4 "lz4" Config |it| Box::new(|| Box::new(lz4::decoder()));
    DecompressXz Xz "xz" Config |it| Box::new(|| Box::new(xz::decoder()));
    DecompressSnappy Snappy "snappy" SnappyConfig |it| match it.format {
        SnappyFormat::Framed => Box::new(|| Box::new(snappy::decoder())),
        SnappyFormat::Raw => Box::new(|| Box::<snappy::Raw>::default()),
    };
    DecompressAny Any "decompress" Config |it| Box::new(|| Box::<sniff::Sniffing>::default()),
        passes |message| !matches!(sniff::format(message), sniff::Found::Format(_));
}

/// The preprocessor.
pub(in crate::processor) struct Decompress<F> {
    max_bytes: usize,
    make: Make,
    /// For whole messages; none before the first, and where the last has failed.
    message: Option<Box<dyn Decode>>,
    /// Streams that have begun.
    streams: HashMap<u64, Stream>,
    room: Room,
    format: PhantomData<F>,
}

struct Stream {
    /// Compressed bytes so far.
    read: u64,
    state: State,
}

enum State {
    Open(Box<dyn Decode>),
    /// Nothing can be told of what comes behind the place where it failed.
    Lost,
}

impl<F: Format> PreprocessorPlugin for Decompress<F> {
    const NAME: &'static str = F::NAME;
    type Config = F::Config;

    fn new(config: F::Config) -> Result<Self> {
        let (max_bytes, make) = F::configure(config);
        if !(1..=BATCH).contains(&max_bytes) {
            return Err(Error::configuration(format_args!(
                "`max_bytes` is {max_bytes}: choose a number from 1 to {BATCH}"
            )));
        }
        Ok(Self {
            max_bytes,
            make,
            message: None,
            streams: HashMap::new(),
            room: Room::new(),
            format: PhantomData,
        })
    }
}

impl<F: Format> Decompress<F> {
    fn fragment(&mut self, cutter: &mut Cutter<'_>) {
        let length = cutter.payload().len() as u64;
        let stream = self
            .streams
            .entry(cutter.event().stream)
            .or_insert_with(|| Stream { read: 0, state: State::Open((self.make)()) });
        let start = stream.read;
        stream.read += length;
        let State::Open(decode) = &mut stream.state else { return };
        let result = decode.push(cutter.payload(), &mut self.room);
        if !self.room.bytes().is_empty() {
            cutter.emit_fragment(self.room.bytes());
        }
        if let Err(error) = result {
            let shown = cutter.payload()[..cutter.payload().len().min(SHOWN)].to_vec();
            let context =
                format!("the stream is lost from here on, in its bytes {start} to {}", stream.read);
            cutter.reject(&shown, error.context(context));
            *stream = Stream { read: 0, state: State::Lost };
        }
    }

    fn end(&mut self, cutter: &mut Cutter<'_>) {
        if let Some(Stream { read, state }) = self.streams.remove(&cutter.event().stream) {
            let error = match state {
                State::Open(decode) if cutter.event().is_stream_aborted() => {
                    if decode.may_end() {
                        Ok(())
                    } else {
                        Err(Error::connection_lost(format_args!(
                            "the stream was cut off within its {} data, after {read} bytes",
                            F::NAME
                        )))
                    }
                }
                State::Open(mut decode) => {
                    let result = decode.end(&mut self.room);
                    if !self.room.bytes().is_empty() {
                        cutter.emit_fragment(self.room.bytes());
                    }
                    result.map_err(|error| {
                        error.context(format_args!("the stream ends behind {read} bytes"))
                    })
                }
                State::Lost if read > 0 => Err(Error::bad_data(format_args!(
                    "{read} bytes behind the failure of the stream were not decompressed"
                ))),
                State::Lost => Ok(()),
            };
            if let Err(error) = error {
                cutter.reject(b"", error);
            }
        }
        cutter.pass();
    }

    fn message(&mut self, cutter: &mut Cutter<'_>) {
        if F::passes(cutter.payload()) {
            return cutter.pass();
        }
        let decode = self.message.get_or_insert_with(|| (self.make)());
        let result =
            decode.push(cutter.payload(), &mut self.room).and_then(|()| decode.end(&mut self.room));
        match result {
            Ok(()) => cutter.emit_joined(self.room.bytes(), 0..0),
            Err(error) => {
                self.message = None;
                let message = cutter.payload().to_vec();
                cutter.reject(&message, error);
            }
        }
    }
}

impl<F: Format> Preprocessor for Decompress<F> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let mut left = BATCH;
        output.reject_all(batch.cut(|cutter| {
            self.room.clear(self.max_bytes.min(left));
            if cutter.event().is_stream_end() {
                self.end(cutter);
            } else if cutter.event().is_fragment() {
                self.fragment(cutter);
            } else {
                self.message(cutter);
            }
            left -= self.room.bytes().len();
        }));
        Ok(())
    }

    fn holds(&self, stream: u64) -> bool {
        let state = self.streams.get(&stream).map(|stream| &stream.state);
        matches!(state, Some(State::Open(decode)) if !decode.may_end())
    }

    fn streams(&self) -> Vec<u64> {
        reassembly::streams(&self.streams)
    }
}
