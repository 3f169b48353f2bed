//! The .xz format, <https://tukaani.org/xz/xz-file-format.txt>.

use liblzma::stream::{Action, Check, Filters, LzmaOptions, Status, Stream};
use tremor_pdk::Error;

use super::{
    Encode,
    steps::{Members, Step, Steps},
};

/// What a stream may make the decompressor use, in bytes: what the highest preset needs, twice.
const MEMORY: u64 = 128 << 20;

pub(super) struct Blocks(Option<Stream>);

pub(super) fn decoder() -> Members<Blocks> {
    Members::new(Blocks(None))
}

impl Steps for Blocks {
    const NAME: &'static str = "xz";

    fn begin(&mut self) -> Result<(), Error> {
        let stream = Stream::new_stream_decoder(MEMORY, 0);
        self.0 = Some(stream.map_err(|error| Error::internal(format_args!("xz: {error}")))?);
        Ok(())
    }

    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, Error> {
        let Some(stream) = &mut self.0 else { return Ok(Step { taken: 0, ended: false }) };
        let before = stream.total_in();
        let status = stream.process_vec(input, out, Action::Run).map_err(|error| match error {
            liblzma::stream::Error::MemLimit => Error::bad_data(format_args!(
                "the xz data needs more than {MEMORY} bytes of memory to be decompressed"
            )),
            error => Error::bad_data(format_args!("corrupt xz data: {error}")),
        })?;
        let taken = usize::try_from(stream.total_in() - before).unwrap_or(input.len());
        Ok(Step { taken, ended: status == Status::StreamEnd })
    }
}

pub(super) struct Compress {
    preset: u32,
}

impl Compress {
    pub(super) fn new(preset: u32) -> Self {
        Self { preset }
    }

    /// A compressor whose memory is in proportion to the message: a preset of its own takes up to
    /// 674 MiB.
    fn stream(&self, length: usize) -> Result<Stream, liblzma::stream::Error> {
        let mut options = LzmaOptions::new_preset(self.preset)?;
        let window = length.next_power_of_two().clamp(4 << 10, 64 << 20);
        let window = u32::try_from(window).unwrap_or(64 << 20);
        options.dict_size(window.min(window_of(self.preset)));
        Stream::new_stream_encoder(Filters::new().lzma2(&options), Check::Crc64)
    }
}

/// The window of a preset in bytes, as in `man xz`.
const fn window_of(preset: u32) -> u32 {
    match preset {
        0 => 256 << 10,
        1 => 1 << 20,
        2 => 2 << 20,
        3 | 4 => 4 << 20,
        5 | 6 => 8 << 20,
        7 => 16 << 20,
        8 => 32 << 20,
        _ => 64 << 20,
    }
}

impl Encode for Compress {
    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let failed = |error| Error::internal(format_args!("xz: {error}"));
        let mut stream = self.stream(message.len()).map_err(failed)?;
        loop {
            out.reserve(128 + message.len() / 2);
            let taken = usize::try_from(stream.total_in()).unwrap_or(message.len());
            let rest = message.get(taken..).unwrap_or_default();
            if stream.process_vec(rest, out, Action::Finish).map_err(failed)? == Status::StreamEnd {
                return Ok(());
            }
        }
    }
}
