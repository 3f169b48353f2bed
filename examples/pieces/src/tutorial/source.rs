//! A source that counts down to one, with a second between two numbers.

use std::time::Duration;

use tremor_pdk::prelude::*;

/// Configuration of the source in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// First number that the source emits.
    from: u64,
}

/// Counts down to one. Stores the next number.
pub struct Countdown(u64);

impl Component for Countdown {
    const NAME: &str = "countdown";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self(config.from))
    }
}

impl Source for Countdown {
    type Batch = StructuredBatch;

    async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
        if self.0 == 0 {
            return Ok(Pull::Finished);
        }
        batch.push(&self.0)?;
        self.0 -= 1;
        Ok(Pull::Idle(Duration::from_secs(1)))
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{EventRef, Result, ValueRef, testing::TestHost};

    use super::Countdown;

    #[test]
    fn source_counts_down_to_one() -> Result<()> {
        let host = TestHost::new();
        let start = host.now_ns();
        let mut source = host.source::<Countdown>(r#"{ "from": 3 }"#)?;
        let batches = source.pull_all()?;
        let values = batches.iter().flatten().filter_map(EventRef::value);
        assert!(values.map(ValueRef::as_u64).eq([Some(3), Some(2), Some(1)]));
        assert_eq!(host.now_ns() - start, 3_000_000_000);
        Ok(())
    }
}
