//! The .xz format, <https://tukaani.org/xz/xz-file-format.txt>.

use liblzma::stream::{Action, Check, Filters, LzmaOptions, Status, Stream};
use tremor_pdk::Error;

use super::{
    Encode,
    buffer::corrupt,
    steps::{Members, Step, Steps},
};

/// Memory of a decompressor in addition to its dictionary, in bytes, rounded up.
const BESIDE: u64 = 1 << 20;

/// The part of [`BESIDE`] that the decompressor writes to, in bytes.
const STATE: usize = 128 << 10;

/// Initial memory limit of a decompressor in bytes, which suffices for the usual presets.
const FIRST: u64 = (8 << 20) + BESIDE;

pub(super) struct Blocks {
    stream: Option<Stream>,
    /// Maximum memory in bytes.
    most: u64,
    /// Current memory limit in bytes, which approximates the memory taken.
    limit: u64,
}

/// Creates a decompressor whose dictionary has at most `max_dictionary` bytes.
pub(super) fn decoder(max_dictionary: usize) -> Members<Blocks> {
    let most = (max_dictionary as u64).saturating_add(BESIDE);
    Members::new(Blocks { stream: None, most, limit: 0 })
}

impl Blocks {
    /// Doubles the memory limit, up to the maximum.
    fn raise(&mut self) -> Result<(), Error> {
        let raised = self.limit.saturating_mul(2).min(self.most);
        let may = self.limit < self.most;
        self.limit = raised;
        match &mut self.stream {
            Some(stream) if may => stream.set_memlimit(raised).or(Ok(())),
            _ => Err(Error::bad_data(format_args!(
                "decompression needs more than {} bytes of memory: raise `max_memory` to allow \
                 more",
                self.most
            ))),
        }
    }
}

impl Steps for Blocks {
    const NAME: &'static str = "xz";

    fn begin(&mut self) -> Result<(), Error> {
        self.limit = FIRST.min(self.most);
        let stream = Stream::new_stream_decoder(self.limit, 0);
        self.stream = Some(stream.map_err(|error| Error::internal(format_args!("xz: {error}")))?);
        Ok(())
    }

    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, Error> {
        let mut taken = 0;
        loop {
            let Some(stream) = &mut self.stream else { return Ok(Step { taken, ended: false }) };
            let before = stream.total_in();
            let status = stream.process_vec(&input[taken..], out, Action::Run);
            let new = usize::try_from(stream.total_in() - before).unwrap_or(input.len());
            taken = taken.saturating_add(new).min(input.len());
            match status {
                Ok(status) => return Ok(Step { taken, ended: status == Status::StreamEnd }),
                Err(liblzma::stream::Error::MemLimit) => self.raise()?,
                Err(error) => return Err(corrupt(Self::NAME, error)),
            }
        }
    }

    fn memory(&self, produced: usize) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX).min(produced.saturating_add(STATE))
    }
}

pub(super) struct Compress {
    preset: u32,
}

impl Compress {
    pub(super) fn new(preset: u32) -> Self {
        Self { preset }
    }

    /// Creates a compressor whose memory is proportional to the message, because a preset alone may take up to 674 MiB.
    fn stream(&self, length: usize) -> Result<Stream, liblzma::stream::Error> {
        let mut options = LzmaOptions::new_preset(self.preset)?;
        let window = length.next_power_of_two().clamp(4 << 10, 64 << 20);
        let window = u32::try_from(window).unwrap_or(64 << 20);
        options.dict_size(window.min(window_of(self.preset)));
        Stream::new_stream_encoder(Filters::new().lzma2(&options), Check::Crc64)
    }
}

/// Returns the window of a preset in bytes, according to `man xz`.
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
