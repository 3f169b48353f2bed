//! A plugin that counts its own allocations: its source replays batches of 100 messages, its sink
//! takes what comes. When it stops, it writes the count to a file.

mod allocator;

use std::path::PathBuf;

use tremor_pdk::prelude::*;

/// What to replay.
#[tremor_pdk::config]
pub struct Config {
    /// How many batches.
    batches: u64,
    /// The 100 messages of each.
    message: String,
    /// The file to write the number of allocations to.
    report: PathBuf,
}

/// The connector.
pub struct Count(Config, Host);

impl Component for Count {
    const NAME: &str = "counting";
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        Ok(Self(config, context.into()))
    }
}

impl Connector for Count {
    type Source = Replay;
    type Sink = Take;

    async fn create_source(&mut self) -> Result<Option<Replay>> {
        Ok(Some(Replay { batches: self.0.batches, message: self.0.message.clone() }))
    }

    async fn create_sink(&mut self) -> Result<Option<Take>> {
        Ok(Some(Take))
    }

    async fn on_stop(&mut self) -> Result<()> {
        let count = allocator::count();
        std::fs::write(self.1.resolve(&self.0.report), count.to_string()).map_err(Error::internal)
    }
}

/// The source.
pub struct Replay {
    batches: u64,
    message: String,
}

impl Source for Replay {
    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        if self.batches == 0 {
            return Ok(Pull::Finished);
        }
        self.batches -= 1;
        for _ in 0..100 {
            batch.push_message(0, self.message.as_bytes());
        }
        Ok(Pull::Events)
    }
}

/// The sink.
pub struct Take;

impl Sink for Take {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery> {
        if batch.events().iter().all(|event| batch.raw(event).is_some()) {
            return Ok(Delivery::done());
        }
        Err(Error::internal("an event that is not encoded"))
    }
}

tremor_pdk::export! { connectors: [Count] }
