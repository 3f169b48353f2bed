//! gzip, [RFC 1952](https://www.rfc-editor.org/rfc/rfc1952), and zlib,
//! [RFC 1950](https://www.rfc-editor.org/rfc/rfc1950).

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use tremor_pdk::Error;

use super::{
    Encode,
    buffer::corrupt,
    steps::{Members, Step, Steps},
};

/// Window of the format, 32 KiB, as an exponent of two.
const WINDOW: u8 = 15;

/// Memory of a decompressor in bytes: its window and its tables.
const MEMORY: usize = 48 << 10;

pub(super) struct Inflate<const IS_GZIP: bool>(Decompress);

pub(super) fn decoder() -> Members<Inflate<true>> {
    Members::new(Inflate::new())
}

pub(super) fn zlib_decoder() -> Members<Inflate<false>> {
    Members::new(Inflate::new())
}

impl<const IS_GZIP: bool> Inflate<IS_GZIP> {
    fn new() -> Self {
        Self(if IS_GZIP { Decompress::new_gzip(WINDOW) } else { Decompress::new(true) })
    }
}

impl<const IS_GZIP: bool> Steps for Inflate<IS_GZIP> {
    const NAME: &'static str = if IS_GZIP { "gzip" } else { "zlib" };

    fn begin(&mut self) -> Result<(), Error> {
        if self.0.total_in() > 0 {
            *self = Self::new();
        }
        Ok(())
    }

    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, Error> {
        let before = self.0.total_in();
        let status = self
            .0
            .decompress_vec(input, out, FlushDecompress::None)
            .map_err(|error| corrupt(Self::NAME, error))?;
        let taken = usize::try_from(self.0.total_in() - before).unwrap_or(input.len());
        Ok(Step { taken, ended: status == Status::StreamEnd })
    }

    fn memory(&self, _produced: usize) -> usize {
        MEMORY
    }
}

pub(super) struct Deflate(Compress);

impl Deflate {
    pub(super) fn new(level: u32) -> Self {
        Self(Compress::new_gzip(Compression::new(level), WINDOW))
    }
}

impl Encode for Deflate {
    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.0.reset();
        loop {
            out.reserve(64 + message.len() / 2);
            let taken = usize::try_from(self.0.total_in()).unwrap_or(message.len());
            let rest = message.get(taken..).unwrap_or_default();
            let status = self
                .0
                .compress_vec(rest, out, FlushCompress::Finish)
                .map_err(|error| Error::internal(format_args!("gzip: {error}")))?;
            if status == Status::StreamEnd {
                return Ok(());
            }
        }
    }
}
