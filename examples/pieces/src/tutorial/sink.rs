//! A sink that receives encoded messages.

use tremor_pdk::prelude::*;

/// Configuration of the sink in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// Text at the start of each line.
    prefix: String,
}

/// Writes each event to the log, after a prefix.
pub struct Journal {
    config: Config,
    context: ComponentContext,
}

impl Component for Journal {
    const NAME: &str = "journal";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { config, context })
    }
}

impl Sink for Journal {
    type Batch = RawBatch;
    const DEFAULT_CODEC: Option<&str> = Some("json");

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let mut exceptions = Exceptions::none();
        for event in batch {
            match str::from_utf8(event.raw()) {
                Ok(text) => tremor_pdk::info!(self.context, "{}{text}", self.config.prefix),
                Err(error) => exceptions.reject(event, Error::bad_data(error)),
            }
        }
        exceptions.into()
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Batch, Undelivered, testing::TestHost};

    use super::Journal;

    #[test]
    fn message_that_is_not_utf8_is_rejected() {
        let host = TestHost::new();
        let mut batch = Batch::new();
        batch.push_message(b"hello");
        batch.push_message(b"\xff");
        let mut sink = host.sink::<Journal>(r#"{ "prefix": "got " }"#).unwrap();
        let answer = sink.deliver(&batch);
        assert_eq!(host.log()[0].1, "got hello");
        let Err(Undelivered::Some { exceptions, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(exceptions[0].events, 1..2);
    }
}
