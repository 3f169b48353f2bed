//! The `null` connector: a sink that discards every event.
//!
//! Useful for flows whose output is not needed, and to measure the other parts of a flow.

use tremor_pdk::{NoConfig, prelude::*};

/// Discards every event.
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

    /// Accepts the batch without reading it, so the runtime need not encode the events.
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
    fn any_batch_is_accepted() {
        let mut sink = TestHost::new().sink::<Null>("{}").unwrap();
        let mut batch = Batch::new();
        batch.push_message(b"bytes");
        batch.push(&["a value"]).unwrap();
        assert_eq!(sink.deliver(&batch), Ok(()));
        sink.stop().unwrap();
    }
}
