//! Compression, a format a module. Before a codec streams are decompressed as they come, a
//! fragment at a time, and whole messages each by itself; after a codec every message is
//! compressed by itself.

mod blocks;
mod budget;
mod compress;
mod decompress;
mod gzip;
mod lz4;
mod room;
mod snappy;
mod sniff;
mod steps;
mod xz;
mod zstd;

use tremor_pdk::Error;

use self::room::Room;
pub(crate) use self::{
    compress::{CompressGzip, CompressLz4, CompressSnappy, CompressXz, CompressZstd},
    decompress::{
        DecompressAny, DecompressGzip, DecompressLz4, DecompressSnappy, DecompressXz,
        DecompressZstd,
    },
};

/// Decompresses one stream or message, and then the next.
pub(crate) trait Decode: Send {
    /// Decompresses what goes on after the input so far, until `out` is full; says how much of the
    /// input it has taken. Once `out` is full, there may be more to come, even without any input.
    /// Where it fails, what `out` has been given by then is good, and the rest of the stream is
    /// lost.
    fn push(&mut self, input: &[u8], out: &mut Room) -> Result<usize, Error>;

    /// About how much memory it takes, in bytes: what it has written to, not what it has reserved.
    fn memory(&self) -> usize;

    /// Whether the input may end here: everything that came of it is put out.
    fn may_end(&self) -> bool;

    /// The input ends here; what comes next is another one.
    ///
    /// # Errors
    /// It must not end here.
    fn end(&mut self, out: &mut Room) -> Result<(), Error>;
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
