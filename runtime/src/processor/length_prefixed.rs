//! `length-prefixed`: before every message stands its length.

mod prefix;

use tremor_pdk::{
    Batch, Component, ComponentContext, Error, Found, Input, Output, Postprocessor, Result,
    StreamSplitter,
};

use self::prefix::{Endianness, Head, Prefix};
use super::max_length;

/// Cuts byte streams into messages. Before each stands its length in bytes, which does not count
/// itself. A whole message is cut as well, and has to end with a message.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct SplitConfig {
    /// What the length looks like.
    #[serde(default)]
    prefix: Prefix,
    /// The order of the bytes of a length that has several; `varint` has an order of its own.
    #[serde(default)]
    endianness: Endianness,
    /// The longest message that is taken, in bytes. Longer ones go to `err`.
    #[serde(default = "max_length")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_length: usize,
}

/// Puts its length in bytes before every message.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct PrependConfig {
    /// What the length looks like.
    #[serde(default)]
    prefix: Prefix,
    /// The order of the bytes of a length that has several; `varint` has an order of its own.
    #[serde(default)]
    endianness: Endianness,
}

/// The preprocessor.
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
        self.0.max_length
    }
}

/// The postprocessor.
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
