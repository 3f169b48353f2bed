//! The processors `length-prefixed`, which read and write the length of each message before the message.

mod prefix;

use tremor_pdk::{
    Batch, Component, ComponentContext, Error, Found, Input, Output, Postprocessor, Result,
    StreamSplitter, units::MessageBytes,
};

use self::prefix::{Endianness, Head, Prefix};
use super::max_length;

/// Splits byte streams into messages. Each message follows its length in bytes, which does not include the prefix. A
/// whole message is split too, and must not end within one of the messages that it contains.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct SplitConfig {
    /// Format of the length.
    #[serde(default)]
    prefix: Prefix,
    /// Byte order of a length of several bytes; `varint` has a byte order of its own.
    #[serde(default)]
    endianness: Endianness,
    /// Maximum length of a message in bytes. Longer messages go to `err`.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
}

/// Writes the length in bytes before each message.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct PrependConfig {
    /// Format of the length.
    #[serde(default)]
    prefix: Prefix,
    /// Byte order of a length of several bytes; `varint` has a byte order of its own.
    #[serde(default)]
    endianness: Endianness,
}

/// The preprocessor `length-prefixed`.
pub(crate) struct Split(SplitConfig);

impl Component for Split {
    const NAME: &str = "length-prefixed";
    type Config = SplitConfig;

    fn new(config: SplitConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self(config))
    }
}

impl StreamSplitter for Split {
    type State = ();

    fn next(&mut self, _state: &mut (), input: Input<'_>) -> Result<Found> {
        let SplitConfig { prefix, endianness, .. } = self.0;
        let mut head = Head::default();
        for (end, byte) in (1..).zip(&*input) {
            head.push(*byte);
            let Some(length) = prefix.length(endianness, &head)? else { continue };
            let end_of_message = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(end);
            return Ok(Found::message(end..end_of_message, end_of_message));
        }
        if input.is_end() {
            return Err(Error::bad_data("the stream ends within a length"));
        }
        Ok(Found::More)
    }

    fn max_length(&self) -> usize {
        self.0.max_length.get()
    }
}

/// The postprocessor `length-prefixed`.
pub(crate) struct Prepend(PrependConfig);

impl Component for Prepend {
    const NAME: &str = "length-prefixed";
    type Config = PrependConfig;

    fn new(config: PrependConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self(config))
    }
}

impl Postprocessor for Prepend {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let PrependConfig { prefix, endianness } = self.0;
        output.reject_all(batch.cut(|cutter| {
            let length = cutter.payload().len();
            match prefix.head(endianness, length) {
                Ok(head) => cutter.emit_joined(head.bytes(), 0..length),
                Err(error) => cutter.refuse(error),
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
