//! Compression, with a module for each format. Before a codec, streams are decompressed while they arrive, fragment by
//! fragment, and whole messages separately. After a codec, each message is compressed separately.

mod blocks;
mod budget;
mod buffer;
mod compress;
mod decompress;
mod gzip;
mod lz4;
mod snappy;
mod sniff;
mod steps;
mod xz;
mod zstd;

use tremor_pdk::Error;

use self::buffer::LimitedBuffer;
pub(crate) use self::{
    compress::{CompressGzip, CompressLz4, CompressSnappy, CompressXz, CompressZstd},
    decompress::{
        DecompressAny, DecompressGzip, DecompressLz4, DecompressSnappy, DecompressXz,
        DecompressZstd,
    },
};

/// Decompresses streams or messages, one after the other.
pub(crate) trait Decode: Send {
    /// Decompresses `input`, the continuation of the input so far, until `out` is full. Returns the number of bytes
    /// consumed. If `out` is full, more output may follow, even without input. After an error, the output so far is
    /// valid, and the remaining stream cannot be decompressed.
    fn push(&mut self, input: &[u8], out: &mut LimitedBuffer) -> Result<usize, Error>;

    /// Returns an estimate of the memory of the decompressor in bytes: the memory it has written to, excluding reserved
    /// memory.
    fn memory(&self) -> usize;

    /// Returns whether the input may end here and all output has been returned.
    fn may_end(&self) -> bool;

    /// Ends the input; the next input is a new one.
    ///
    /// # Errors
    /// Returns an error if the input is incomplete.
    fn end(&mut self, out: &mut LimitedBuffer) -> Result<(), Error>;
}

/// Compresses messages.
trait Encode: Send {
    /// Appends the message, compressed, to `out`.
    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Error>;
}

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod tests;
