//! Checks of functions that decode and encode compressed data. A few bytes may decode to gigabytes, so that the data is
//! decoded here with a limit.

use std::io::Read;

use vrl::value::Value;

use super::{Arguments, Checked, fits, integer};
use crate::memory::remaining;

/// Maximum level of `encode_zstd`. Higher levels take up to 800 MiB.
const MOST_LEVEL: u64 = 19;

/// Maximum size of the window of zstd, as the number of its bits. The level 19 needs 23 bits.
const MOST_WINDOW: u32 = 26;

/// First bytes of a frame of LZ4.
const LZ4_FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

pub(crate) fn decode_gzip(arguments: &Arguments<'_>) -> Checked {
    decoded(flate2::read::MultiGzDecoder::new(arguments.bytes("value")))
}

pub(crate) fn decode_zlib(arguments: &Arguments<'_>) -> Checked {
    decoded(flate2::read::ZlibDecoder::new(arguments.bytes("value")))
}

pub(crate) fn decode_zstd(arguments: &Arguments<'_>) -> Checked {
    let Ok(mut decoder) = zstd::Decoder::new(arguments.bytes("value")) else { return Ok(None) };
    match decoder.window_log_max(MOST_WINDOW) {
        Ok(()) => decoded(decoder),
        Err(error) => Err(format!("cannot limit the window: {error}").into()),
    }
}

pub(crate) fn decode_lz4(arguments: &Arguments<'_>) -> Checked {
    let data = arguments.bytes("value");
    if data.starts_with(&LZ4_FRAME) {
        return decoded(lz4_flex::frame::FrameDecoder::new(data));
    }
    let is_prepended = matches!(arguments.get("prepended_size"), Some(Value::Boolean(true)));
    let size = match data.first_chunk() {
        Some(size) if is_prepended => u32::from_le_bytes(*size).into(),
        _ => integer(arguments, "buf_size", 0),
    };
    // The crate takes a negative size for a very large one.
    fits(usize::try_from(size).unwrap_or(usize::MAX))
}

pub(crate) fn decode_snappy(arguments: &Arguments<'_>) -> Checked {
    // The data begins with the decoded length in groups of seven bits.
    let mut length = 0_usize;
    for (position, byte) in arguments.bytes("value").iter().take(5).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            break;
        }
    }
    fits(length)
}

pub(crate) fn encode_zstd(arguments: &Arguments<'_>) -> Checked {
    let level = integer(arguments, "compression_level", 0);
    if level.unsigned_abs() > MOST_LEVEL {
        return Err(
            format!("invalid `compression_level` {level}: expected at most {MOST_LEVEL}").into()
        );
    }
    Ok(None)
}

/// Decodes data, or leaves data that is invalid to the function of the crate, which describes the error.
fn decoded(decoder: impl Read) -> Checked {
    let most = remaining();
    let mut result = Vec::new();
    let read = decoder.take(most as u64 + 1).read_to_end(&mut result);
    if result.len() > most {
        return fits(result.len());
    }
    Ok(read.is_ok().then(|| Value::Bytes(result.into())))
}
