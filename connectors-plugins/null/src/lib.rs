//! The `null` connector: a sink that takes every event and keeps none.
//!
//! For flows whose output is not needed, and to measure everything before a sink.

use tremor_pdk::{NoConfig, prelude::*};

/// The sink.
#[derive(Debug)]
pub struct Null;

impl Component for Null {
    const NAME: &str = "null";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self)
    }
}

impl Sink for Null {
    type Batch = StructuredBatch;

    /// The events are not read, so they need not be encoded.
    async fn deliver(&mut self, _batch: &StructuredBatch) -> Delivery {
        Ok(())
    }
}

tremor_pdk::export! { sinks: [Null] }

#[cfg(test)]
mod tests {
    use tremor_pdk::{Batch, testing::TestHost};

    use super::Null;

    #[test]
    fn it_takes_everything() {
        let mut sink = TestHost::new().sink::<Null>("{}").unwrap();
        let mut batch = Batch::new();
        batch.push_message(b"bytes");
        batch.push(&["a value"]).unwrap();
        assert_eq!(sink.deliver(&batch), Ok(()));
        sink.stop().unwrap();
    }
}
