//! The codec.

use tremor_pdk::prelude::*;

use crate::{
    config::{Config, EventIs},
    decode::Decoder,
    encode,
};

/// The codec `prometheus`.
pub struct Prometheus {
    config: Config,
    decoder: Decoder,
}

impl Component for Prometheus {
    const NAME: &str = "prometheus";
    const DESCRIPTION: &str = "Samples in Prometheus' text format, or in OpenMetrics'.";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { config, decoder: Decoder::default() })
    }
}

impl Codec for Prometheus {
    fn decode(&mut self, message: &[u8], value: &mut Writer<'_>) -> Result<()> {
        self.decoder.decode(self.config, message, value)
    }

    fn holds_no_event(&self, message: &[u8]) -> bool {
        // A message that contains only `HELP`, `TYPE` and `UNIT` lines contains no event.
        let is_event = |line: &[u8]| !matches!(line.trim_ascii_start().first(), None | Some(b'#'));
        let message = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message);
        self.config.event == EventIs::Sample && !message.split(|byte| *byte == b'\n').any(is_event)
    }

    fn encode(&mut self, value: ValueRef<'_>, message: &mut Message<'_>) -> Result<()> {
        message.extend_from_slice(encode::encode(self.config, value)?.as_bytes());
        Ok(())
    }
}
