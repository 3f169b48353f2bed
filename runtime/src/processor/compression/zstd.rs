//! Zstandard, [RFC 8878](https://www.rfc-editor.org/rfc/rfc8878).

use tremor_pdk::Error;
use zstd::{
    bulk::Compressor,
    zstd_safe::{
        DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, compress_bound, get_error_name,
    },
};

use super::{
    Encode,
    buffer::corrupt,
    steps::{Members, Step, Steps},
};

/// Memory of a decompressor in addition to its window, in bytes.
const BESIDE: usize = 512 << 10;

/// Exponents of two of the windows that frames may have.
const WINDOWS: std::ops::RangeInclusive<u32> = 10..=31;

pub(super) struct Frames {
    context: Option<DCtx<'static>>,
    /// Maximum window of a frame, as an exponent of two.
    window: u32,
}

/// Creates a decompressor whose window has at most `max_window` bytes.
pub(super) fn decoder(max_window: usize) -> Members<Frames> {
    let window = max_window.max(1).ilog2().clamp(*WINDOWS.start(), *WINDOWS.end());
    Members::new(Frames { context: None, window })
}

/// Error text of the library for a window that exceeds the limit.
const TOO_LARGE: &str = "Frame requires too much memory for decoding";

fn failed(code: usize) -> Error {
    match get_error_name(code) {
        TOO_LARGE => Error::bad_data(
            "the window of the data is larger than `max_memory`: raise `max_memory` to allow it",
        ),
        name => corrupt(Frames::NAME, name),
    }
}

impl Steps for Frames {
    const NAME: &'static str = "zstd";

    fn begin(&mut self) -> Result<(), Error> {
        if let Some(context) = &mut self.context {
            return context.reset(ResetDirective::SessionOnly).map(|_| ()).map_err(failed);
        }
        let context = DCtx::try_create();
        let mut context = context.ok_or_else(|| Error::internal("zstd: no memory is left"))?;
        context.set_parameter(DParameter::WindowLogMax(self.window)).map_err(failed)?;
        self.context = Some(context);
        Ok(())
    }

    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, Error> {
        let Some(context) = &mut self.context else { return Ok(Step { taken: 0, ended: false }) };
        let written = out.len();
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around_pos(out, written);
        let left = context.decompress_stream(&mut to, &mut from).map_err(failed)?;
        Ok(Step { taken: from.pos(), ended: left == 0 })
    }

    fn memory(&self, produced: usize) -> usize {
        let reserved = self.context.as_ref().map_or(0, DCtx::sizeof);
        reserved.min(produced.saturating_add(BESIDE))
    }
}

pub(super) struct Compress(Compressor<'static>);

impl Compress {
    /// # Errors
    /// Returns an error if the library has no memory.
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
