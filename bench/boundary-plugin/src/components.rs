//! A plugin in the manner of all plugins, which looks at every event and does nothing else: compiled
//! into the plugin, and once more into the benchmarks for the other side.

use tremor_pdk::{NoSource, RawEvent, prelude::*};

/// No configuration.
#[tremor_pdk::config]
pub struct Nothing {}

/// Returns the number of bytes of all messages.
fn bytes<'b>(messages: impl Iterator<Item = &'b [u8]>) -> usize {
    messages.map(<[u8]>::len).sum()
}

/// An operator that adds up bytes.
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

/// A connector and its sink, which adds up bytes.
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
