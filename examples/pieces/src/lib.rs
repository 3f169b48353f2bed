//! The pieces of plugins that pages of the book show, in a plugin that compiles: a sink that counts
//! bytes, an operator that sorts, and one that holds events back.

use tremor_pdk::{Counter, prelude::*};

pub mod tutorial;

/// Counts the bytes that it is given.
pub struct Tally {
    bytes: Counter,
}

impl Component for Tally {
    const NAME: &str = "tally";
    type Config = NoConfig;

    fn new(_config: NoConfig, context: Context) -> Result<Self> {
        Ok(Self { bytes: context.counter("bytes", "Bytes that were delivered") })
    }
}

impl Sink for Tally {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn deliver(&mut self, batch: &Batch) -> Delivery {
        for bytes in batch.iter().filter_map(EventRef::raw) {
            self.bytes.add(bytes.len() as u64);
        }
        Ok(())
    }
}

/// Sends events to ports by their level.
pub struct Classify;

impl Component for Classify {
    const NAME: &str = "classify";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: Context) -> Result<Self> {
        Ok(Self)
    }
}

impl Operator for Classify {
    fn ports(&self) -> Vec<String> {
        vec!["alarms".to_owned()]
    }

    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| {
            match event.value().and_then(|value| value.get("level")?.as_str()) {
                Some("debug") => Verdict::Discard,
                Some("error") => Verdict::Port(0), // the first of `Operator::ports`
                Some(_) => Verdict::Keep,
                None => Verdict::Reject(Error::bad_data("the event has no `level`")),
            }
        });
        Ok(())
    }
}

/// Makes one event, their sum, of at least a thousand numbers.
#[derive(Default)]
pub struct Sum {
    total: f64,
    count: usize,
    holds: Holds,
}

impl Component for Sum {
    const NAME: &str = "sum";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: Context) -> Result<Self> {
        Ok(Self::default())
    }
}

impl Operator for Sum {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        for event in &*batch {
            self.total += event.value().and_then(ValueRef::cast_f64).unwrap_or_default();
        }
        self.count += batch.len();
        batch.retain(|_| false);
        output.hold(&mut self.holds);
        if self.count >= 1_000 { self.put_out(batch, output) } else { Ok(()) }
    }

    fn flush(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        if self.count > 0 { self.put_out(batch, output) } else { Ok(()) }
    }

    fn held(&self) -> usize {
        self.count
    }
}

impl Sum {
    fn put_out(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        batch.push(&std::mem::take(&mut self.total))?;
        output.create(1);
        output.merge(std::mem::take(&mut self.count));
        output.release(&mut self.holds);
        Ok(())
    }
}

tremor_pdk::export! { sinks: [Tally], operators: [Classify, Sum] }
