//! A source that counts down to one: the smallest example of a source.

use tremor_pdk::prelude::*;

/// Configuration of the source in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// First number that the source emits.
    from: u64,
}

/// Counts down to one.
pub struct Countdown {
    left: u64,
}

impl Component for Countdown {
    const NAME: &str = "countdown";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { left: config.from })
    }
}

impl Source for Countdown {
    type Batch = StructuredBatch;

    async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
        while self.left > 0 && !batch.is_full() {
            batch.push(&self.left)?;
            self.left -= 1;
        }
        Ok(if self.left > 0 { Pull::Events } else { Pull::Finished })
    }
}

tremor_pdk::export! { sources: [Countdown] }

#[cfg(test)]
mod tests {
    use tremor_pdk::{
        EventRef, Result,
        testing::{TestHost, conformance},
    };

    use super::Countdown;

    #[test]
    fn source_counts_down_to_one() -> Result<()> {
        let host = TestHost::new();
        let batches = host.source::<Countdown>(r#"{ "from": 3 }"#)?.pull_all()?;
        let events = batches.iter().flatten().map(EventRef::value);
        let numbers: Vec<_> = events.map(|value| value?.as_u64()).collect();
        assert_eq!(numbers, [Some(3), Some(2), Some(1)]);
        Ok(())
    }

    #[test]
    fn contract_of_plugins_is_kept() {
        conformance::source::<Countdown>(r#"{ "from": 3 }"#).expect_no_faults();
    }
}
