//! Components that the pages of the documentation show: a sink that counts bytes, an operator that sends events to
//! ports, and two operators that buffer events.

use std::collections::BTreeMap;

use tremor_pdk::{Buffered, Counter, NoConfig, StreamKey, prelude::*};

pub mod tutorial;

/// Counts the bytes that are delivered.
pub struct Tally {
    bytes: Counter,
}

impl Component for Tally {
    const NAME: &str = "tally";
    type Config = NoConfig;

    fn new(_config: NoConfig, context: ComponentContext) -> Result<Self> {
        Ok(Self { bytes: context.counter("bytes", "Bytes that were delivered") })
    }
}

impl Sink for Tally {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        for event in batch {
            self.bytes.add(event.raw().len() as u64);
        }
        Ok(())
    }
}

/// Discards events, rejects them, or sends them to a port, depending on their level.
pub struct Classify;

impl Component for Classify {
    const NAME: &str = "classify";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
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

/// Sums numbers, and emits the sum as one event after at least a thousand numbers, and at the end.
#[derive(Default)]
pub struct Sum {
    total: f64,
    buffered: Buffered,
}

impl Operator for Sum {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        for event in &*batch {
            self.total += event.value().and_then(ValueRef::cast_f64).unwrap_or_default();
        }
        self.buffered.absorb_all(batch, output);
        if self.buffered.len() >= 1_000 { self.emit(output) } else { Ok(()) }
    }

    fn flush(&mut self, output: &mut Output) -> Result<()> {
        if self.buffered.is_empty() { Ok(()) } else { self.emit(output) }
    }
}

impl Sum {
    fn emit(&mut self, output: &mut Output) -> Result<()> {
        self.buffered.emit(output, &std::mem::take(&mut self.total))?;
        Ok(())
    }
}

impl Component for Sum {
    const NAME: &str = "sum";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self::default())
    }
}

/// Joins the lines of each stream to paragraphs. A paragraph ends at an empty line.
#[derive(Default)]
pub struct Paragraphs {
    /// Incomplete paragraph of each stream: its text, and the events that it consists of.
    open: BTreeMap<StreamKey, (String, Buffered)>,
}

impl Operator for Paragraphs {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let mut complete = Vec::new();
        output.divert(batch, |event| {
            let (text, buffered) = self.open.entry(event.get().stream()).or_default();
            let verdict = buffered.absorb(event);
            match event.value().and_then(ValueRef::as_str) {
                Some(line) if !line.is_empty() => {
                    text.push_str(line);
                    text.push('\n');
                }
                _ => complete.push((std::mem::take(text), std::mem::take(buffered))),
            }
            verdict
        });
        for (text, mut buffered) in complete {
            buffered.emit(output, &text)?;
        }
        Ok(())
    }

    fn flush(&mut self, output: &mut Output) -> Result<()> {
        for (text, mut buffered) in std::mem::take(&mut self.open).into_values() {
            if !buffered.is_empty() {
                buffered.emit(output, &text)?;
            }
        }
        Ok(())
    }
}

impl Component for Paragraphs {
    const NAME: &str = "paragraphs";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self::default())
    }
}

tremor_pdk::export! { sinks: [Tally], operators: [Classify, Sum, Paragraphs] }

#[cfg(test)]
mod tests {
    use tremor_pdk::{
        Batch, Operator, Output, Result, ValueRef,
        testing::{HostOutput, TestHost},
    };

    use super::Sum;

    #[test]
    fn flush_emits_the_sum_with_the_latest_time() -> Result<()> {
        let mut sum: Sum = TestHost::new().component("{}")?;
        let (mut batch, mut output) = (Batch::new(), Output::new());
        for (number, ingest_ns) in [(1, 10), (2, 30), (4, 20)] {
            batch.push(&number)?;
            batch.last_mut().into_iter().for_each(|mut event| event.set_ingest_ns(ingest_ns));
        }
        output.begin(1);
        sum.process(&mut batch, &mut output)?;
        assert_eq!((batch.len(), output.take_absorbed()), (0, 3));
        sum.flush(&mut output)?;
        let sums = output.batches().flatten().map(|event| (event.value(), event.ingest_ns()));
        let sums = sums.map(|(value, ns)| (value.and_then(ValueRef::cast_f64), ns));
        assert!(sums.eq([(Some(7.0), 30)]));
        Ok(())
    }
}
