//! Ordinary components that only read every event. The plugin contains them, and the benchmarks include this file as
//! well, to compare the plugin with statically linked components.

use tremor_pdk::{NoSource, RawEvent, prelude::*};

/// An empty configuration.
#[tremor_pdk::config]
pub struct Nothing {}

/// Returns the number of bytes of all messages.
fn bytes<'b>(messages: impl Iterator<Item = &'b [u8]>) -> usize {
    messages.map(<[u8]>::len).sum()
}

/// An operator that adds up the bytes of its events.
#[derive(Default)]
pub struct Count {
    bytes: usize,
}

impl Operator for Count {
    fn process(&mut self, batch: &mut Batch, _output: &mut Output) -> Result<()> {
        self.bytes += bytes(batch.iter().filter_map(EventRef::raw));
        Ok(())
    }
}

impl Component for Count {
    const NAME: &str = "count";
    type Config = Nothing;

    fn new(_config: Nothing, _context: ComponentContext) -> Result<Self> {
        Ok(Self::default())
    }
}

/// A type that is both a connector and its sink, which adds up the bytes of its events.
#[derive(Default)]
pub struct Take {
    bytes: usize,
}

impl Component for Take {
    const NAME: &str = "take";
    type Config = Nothing;

    fn new(_config: Nothing, _context: ComponentContext) -> Result<Self> {
        Ok(Self::default())
    }
}

impl Connector for Take {
    type Source = NoSource;
    type Sink = Self;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, Self>> {
        Ok(Halves::sink(Self::default()))
    }
}

impl Sink for Take {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        self.bytes += bytes(batch.iter().map(RawEvent::raw));
        Ok(())
    }
}
