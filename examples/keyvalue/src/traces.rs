//! The preprocessor `stack-traces`.

use std::time::Duration;

use tremor_pdk::{WholeMessages, prelude::*, units::Interval};

/// Configuration of the preprocessor.
#[tremor_pdk::config]
pub struct Config {
    /// Time without a further line after which a stack trace is complete.
    timeout: Interval,
}

/// Joins each line with the lines after it that begin with a space or a tab.
pub struct StackTraces {
    timeout: Duration,
}

impl Component for StackTraces {
    const NAME: &str = "stack-traces";
    const DESCRIPTION: &str = "Joins a line with the indented lines after it.";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { timeout: config.timeout.get() })
    }
}

impl StreamSplitter for StackTraces {
    type State = ();

    // Whole messages are lines that another preprocessor has split, so they are joined as well.
    const WHOLE_MESSAGES: WholeMessages = WholeMessages::Join(b"\n");

    fn next(&mut self, _state: &mut (), input: Input<'_>) -> Result<Found> {
        // If the input of the previous call ended with a line feed, the byte after it is new, so the line feed is
        // searched again.
        let mut start = input.seen().saturating_sub(1);
        while let Some(end) = input.find_from(start, b'\n') {
            match input.get(end + 1) {
                Some(b' ' | b'\t') => start = end + 1,
                Some(_) => return Ok(Found::message(0..end, end + 1)),
                None => break,
            }
        }
        if !input.is_end() {
            return Ok(Found::More);
        }
        let length = input.strip_suffix(b"\n").map_or(input.len(), <[u8]>::len);
        Ok(Found::message(0..length, input.len()))
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{
        Batch, EventRef, Output, Preprocessor, Result,
        testing::{TestHost, conformance},
    };

    use super::StackTraces;

    const CONFIG: &str = r#"{ "timeout": "1s" }"#;

    #[test]
    fn last_stack_trace_is_emitted_after_the_timeout() -> Result<()> {
        let host = TestHost::new();
        let mut traces = host.splitter::<StackTraces>(CONFIG)?;
        let (mut batch, mut output) = (Batch::new(), Output::new());
        batch.stream(1).push_fragment(b"all is well\nerror\n  at f\n  at g\n");
        traces.process(&mut batch, &mut output)?;
        assert!(batch.iter().map(EventRef::raw).eq([Some(&b"all is well"[..])]));
        let batch = host.pass_time(&mut traces)?;
        assert!(batch.iter().map(EventRef::raw).eq([Some(&b"error\n  at f\n  at g"[..])]));
        assert_eq!(traces.due(), None);
        Ok(())
    }

    #[test]
    fn stack_traces_keep_the_contract() {
        let sample = b"one\n two\n\nthree\n\tfour\n";
        conformance::splitter_with::<StackTraces>(CONFIG, &[sample]).expect_no_faults();
    }
}
