//! An operator that sends the events that it does not keep to an additional port.

use std::num::NonZeroU64;

use tremor_pdk::prelude::*;

/// Configuration of the operator in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// Size of a group of events, of which only the first event is kept.
    every: NonZeroU64,
}

/// Keeps the first of every `every` events, and sends the others to a port.
pub struct Thin {
    config: Config,
    seen: u64,
}

impl Component for Thin {
    const NAME: &str = "thin";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { config, seen: 0 })
    }
}

impl Operator for Thin {
    fn ports(&self) -> Vec<String> {
        vec!["rest".to_owned()]
    }

    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |_event| {
            let number = self.seen;
            self.seen += 1;
            match number % self.config.every {
                0 => Verdict::Keep,
                _ => Verdict::Port(0),
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Batch, EventRef, Operator, Output, Result, ValueRef, testing::TestHost};

    use super::Thin;

    #[test]
    fn events_that_are_not_kept_leave_by_the_port() -> Result<()> {
        let mut operator: Thin = TestHost::new().component(r#"{ "every": 2 }"#)?;
        let (mut batch, mut output) = (Batch::new(), Output::new());
        for number in 0..5 {
            batch.push(&number)?;
        }
        operator.process(&mut batch, &mut output)?;
        assert_eq!(batch.len(), 3);
        let rest = output.batches().flatten().filter_map(EventRef::value);
        assert!(rest.map(ValueRef::as_u64).eq([Some(1), Some(3)]));
        Ok(())
    }
}
