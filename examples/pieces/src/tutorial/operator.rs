//! An operator with a port for the events that it does not keep.

use std::num::NonZeroU64;

use tremor_pdk::prelude::*;

/// The `config` of the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// One event of so many is kept.
    every: NonZeroU64,
}

/// Keeps the first event of every few, and sends the others out of a port.
pub struct Sample {
    config: Config,
    seen: u64,
}

impl Component for Sample {
    const NAME: &str = "sample";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { config, seen: 0 })
    }
}

impl Operator for Sample {
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

    use super::Sample;

    #[test]
    fn the_others_leave_by_the_port() -> Result<()> {
        let mut operator: Sample = TestHost::new().component(r#"{ "every": 2 }"#)?;
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
