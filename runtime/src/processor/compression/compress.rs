//! The postprocessors that compress each message separately.

use tremor_pdk::{
    Batch, Component, ComponentContext, Error, NoConfig, Output, Postprocessor, Result,
};

use super::{Encode, buffer::KEPT, decompress::SnappyFormat, gzip, lz4, snappy, xz, zstd};

/// Compresses each message separately.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct GzipConfig {
    /// Compression level from 0 (no compression) to 9 (smallest output).
    #[serde(default = "middle")]
    #[schemars(range(max = 9))]
    level: u32,
}

/// Compresses each message separately.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct XzConfig {
    /// Compression level from 0 (fastest) to 9 (smallest output).
    #[serde(default = "middle")]
    #[schemars(range(max = 9))]
    level: u32,
}

const fn middle() -> u32 {
    6
}

/// Compresses each message separately.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct ZstdConfig {
    /// Compression level from 1 (fastest) to 22 (smallest output). Levels above 19 take much memory.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 22))]
    level: i32,
}

const fn three() -> i32 {
    3
}

/// Compresses each message separately.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct SnappyConfig {
    /// Format of the compressed data.
    #[serde(default)]
    format: SnappyFormat,
}

fn level_of<T: Copy + PartialOrd + std::fmt::Display>(
    level: T,
    lowest: T,
    highest: T,
) -> Result<T> {
    if (&lowest..=&highest).contains(&&level) {
        return Ok(level);
    }
    Err(Error::configuration(format_args!(
        "`level`: expected a number from {lowest} to {highest}, found {level}"
    )))
}

macro_rules! formats {
    ($($plugin:ident $name:literal $config:ident |$it:pat_param| $make:expr;)*) => {$(
        pub(crate) struct $plugin(Compress);

        impl Component for $plugin {
            const NAME: &str = $name;
            type Config = $config;

            fn new($it: $config, _context: ComponentContext) -> Result<Self> {
                Ok(Self(Compress { encode: $make, out: Vec::new() }))
            }
        }


        impl Postprocessor for $plugin {
            fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
                self.0.process(batch, output);
                Ok(())
            }
        }
    )*};
}

formats! {
    CompressGzip "gzip" GzipConfig |it| Box::new(gzip::Deflate::new(level_of(it.level, 0, 9)?));
    CompressZstd "zstd" ZstdConfig |it| Box::new(zstd::Compress::new(level_of(it.level, 1, 22)?)?);
    CompressXz "xz" XzConfig |it| Box::new(xz::Compress::new(level_of(it.level, 0, 9)?));
    CompressLz4 "lz4" NoConfig |NoConfig {}| Box::new(lz4::Compress::new());
    CompressSnappy "snappy" SnappyConfig |it| match it.format {
        SnappyFormat::Framed => Box::new(snappy::CompressFramed),
        SnappyFormat::Raw => Box::new(snappy::CompressRaw(snap::raw::Encoder::new())),
    };
}

struct Compress {
    encode: Box<dyn Encode>,
    out: Vec<u8>,
}

impl Compress {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) {
        let Self { encode, out } = self;
        output.reject_all(batch.cut(|cutter| {
            match encode.message(cutter.payload(), out) {
                Ok(()) => cutter.emit_joined(out, 0..0),
                Err(error) => cutter.refuse(error),
            }
            // The buffer of a large message is freed.
            out.clear();
            out.shrink_to(KEPT);
        }));
    }
}
