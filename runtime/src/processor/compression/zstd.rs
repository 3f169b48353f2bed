//! Zstandard, [RFC 8878](https://www.rfc-editor.org/rfc/rfc8878).

use tremor_pdk::Error;
use zstd::{
    bulk::Compressor,
    stream::raw::{Decoder, InBuffer, Operation, OutBuffer},
    zstd_safe::compress_bound,
};

use super::{
    Encode,
    room::corrupt,
    steps::{Members, Step, Steps},
};

pub(super) struct Frames(Option<Decoder<'static>>);

pub(super) fn decoder() -> Members<Frames> {
    Members::new(Frames(None))
}

impl Steps for Frames {
    const NAME: &'static str = "zstd";

    fn begin(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            Some(decoder) => decoder.reinit(),
            // The library's own limit on the window that a frame may ask for holds: 128 MiB.
            none => Decoder::new().map(|decoder| *none = Some(decoder)),
        }
        .map_err(|error| Error::internal(format_args!("zstd: {error}")))
    }

    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, Error> {
        let Some(decoder) = &mut self.0 else { return Ok(Step { taken: 0, ended: false }) };
        let written = out.len();
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around_pos(out, written);
        let left = decoder.run(&mut from, &mut to).map_err(|error| corrupt("zstd", &error))?;
        Ok(Step { taken: from.pos(), ended: left == 0 })
    }
}

pub(super) struct Compress(Compressor<'static>);

impl Compress {
    /// # Errors
    /// The library has no memory.
    pub(super) fn new(level: i32) -> Result<Self, Error> {
        let compressor = Compressor::new(level)
            .and_then(|mut it| it.include_checksum(true).map(|()| it))
            .map_err(|error| Error::internal(format_args!("zstd: {error}")))?;
        Ok(Self(compressor))
    }
}

impl Encode for Compress {
    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        out.reserve(compress_bound(message.len()));
        self.0
            .compress_to_buffer(message, out)
            .map(|_| ())
            .map_err(|error| Error::internal(format_args!("zstd: {error}")))
    }
}
