//! Counts down, as the smallest connector there is.

use tremor_pdk::prelude::*;

/// Counts down to one. It is its own configuration and its own source.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Countdown {
    /// The first number.
    from: u64,
}

impl Component for Countdown {
    const NAME: &str = "countdown";
    type Config = Self;

    fn new(config: Self, _context: Context) -> Result<Self> {
        Ok(config)
    }
}

impl Connector for Countdown {
    const CODEC: CodecRequirement = CodecRequirement::Structured;
    type Source = Self;
    type Sink = NoSink;

    async fn create_source(&mut self) -> Result<Option<Self>> {
        Ok(Some(self.clone()))
    }
}

impl Source for Countdown {
    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        while self.from > 0 && !batch.is_full() {
            batch.push_value(0, &self.from)?;
            self.from -= 1;
        }
        Ok(if self.from > 0 { Pull::Events } else { Pull::Finished })
    }
}

tremor_pdk::export! { connectors: [Countdown] }
