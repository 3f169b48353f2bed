//! The built-in processors, on either side of a codec: preprocessors put messages together before it, postprocessors
//! frame them after it. Each is written as a plugin's processor is.

pub(crate) mod base64;
pub(crate) mod compression;
#[cfg(test)]
pub(crate) mod endless;
mod join;
pub(crate) mod length_prefixed;
pub(crate) mod lines;
mod remove_empty;
mod streams;
#[cfg(test)]
mod testing;

#[cfg(test)]
pub(crate) use self::testing::{postprocessor, pre, run};
pub(crate) use self::{join::Join, remove_empty::RemoveEmpty};

/// Maximum length of a message in bytes, unless a flow says otherwise: decoded, it may have as many as any event.
const fn max_length() -> usize {
    4 << 20
}
