//! Counts down, as the smallest connector there is.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tremor_pdk::prelude::*;

/// The `config` of the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// The first number.
    from: u64,
}

/// The connector: it lives as long as the flow, and has the count.
pub struct Countdown(Arc<AtomicU64>);

impl Component for Countdown {
    const NAME: &str = "countdown";
    type Config = Config;

    fn new(config: Config, _context: Context) -> Result<Self> {
        Ok(Self(Arc::new(AtomicU64::new(config.from))))
    }
}

impl Connector for Countdown {
    const CODEC: CodecRequirement = CodecRequirement::Structured;
    type Source = Numbers;
    type Sink = NoSink;

    async fn create_source(&mut self) -> Result<Option<Numbers>> {
        Ok(Some(Numbers(Arc::clone(&self.0))))
    }
}

/// The source: it lives as long as a connection, and goes on where the one before it ended.
pub struct Numbers(Arc<AtomicU64>);

impl Source for Numbers {
    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        while !batch.is_full() {
            let number = self.0.load(Relaxed);
            if number == 0 {
                return Ok(Pull::Finished);
            }
            batch.push_value(0, &number)?;
            self.0.store(number - 1, Relaxed);
        }
        Ok(Pull::Events)
    }
}

tremor_pdk::export! { connectors: [Countdown] }

#[cfg(test)]
mod tests {
    use tremor_pdk::{Connector, Result, Source, abi::batch::Batch, testing::TestHost};

    use super::Countdown;

    #[test]
    fn it_counts_down_to_one() -> Result<()> {
        let host = TestHost::new();
        let batches = host.connect::<Countdown>(r#"{ "from": 3 }"#)?.pull_all()?;
        let events =
            batches.iter().flat_map(|batch| batch.events().iter().map(|event| batch.value(event)));
        let numbers: Vec<_> = events.map(|value| value?.as_u64()).collect();
        assert_eq!(numbers, [Some(3), Some(2), Some(1)]);
        Ok(())
    }

    #[test]
    fn the_next_connection_goes_on_where_the_last_one_ended() -> Result<()> {
        let host = TestHost::new();
        let mut countdown = host.component::<Countdown>(r#"{ "from": 1000000 }"#)?;
        let mut numbers = Vec::new();
        for _ in 0..2 {
            let mut source = host.block_on(countdown.create_source())?.expect("it is a source");
            let mut batch = Batch::default();
            host.block_on(source.pull(&mut batch))?;
            let values = batch.events().iter().map(|event| batch.value(event)?.as_u64());
            assert!(!batch.is_empty());
            numbers.extend(values);
        }
        let expected = (0..numbers.len() as u64).map(|position| Some(1_000_000 - position));
        assert!(numbers.iter().copied().eq(expected));
        Ok(())
    }
}
