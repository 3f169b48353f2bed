//! The built-in processors. Preprocessors form messages before a codec decodes them, and postprocessors frame messages
//! after the codec has encoded them. Built-in processors implement the same traits as the processors of plugins.

pub(crate) mod base64;
pub(crate) mod compression;
pub(crate) mod container;
pub(crate) mod csv_records;
pub(crate) mod decode_text;
#[cfg(test)]
pub(crate) mod endless;
pub(crate) mod gelf_chunks;
mod join;
mod joining;
pub(crate) mod json_values;
pub(crate) mod length_prefixed;
pub(crate) mod lines;
pub(crate) mod multiline;
mod remove_empty;
mod streams;
pub(crate) mod syslog_frames;
#[cfg(test)]
mod testing;

#[cfg(test)]
pub(crate) use self::testing::{postprocessor, pre, run};
pub(crate) use self::{join::Join, remove_empty::RemoveEmpty};

use tremor_pdk::units::MessageBytes;

/// Default maximum length of a message. The decoded form of a message of this length may have the maximum size
/// of any event.
const fn max_length() -> MessageBytes {
    MessageBytes::new(4 << 20)
}
