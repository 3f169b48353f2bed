use std::collections::VecDeque;
use std::task::{Context, Poll};

use serde_json::Value as Config;
use tremor_pdk::{Batch, Error, Pull, Result, dynamic::DynSource};

use super::{Setup, doubles::Heard, doubles::Takes, pulls};
use crate::processor;

/// Brings fragments, one a pull, and writes down what it hears of its pulls.
struct Fragments {
    left: VecDeque<&'static [u8]>,
    heard: Heard,
}

impl DynSource for Fragments {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        let Some(fragment) = self.left.pop_front() else {
            return Poll::Ready(Ok(Pull::Finished));
        };
        batch.push_fragment(0, fragment);
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _batch: &mut Batch) {}

    fn is_transactional(&self) -> bool {
        true
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.heard.lock().map_err(Error::internal)?.push((pull, true));
        Ok(())
    }

    fn fail(&mut self, pull: u64) -> Result<()> {
        self.heard.lock().map_err(Error::internal)?.push((pull, false));
        Ok(())
    }

    fn on_circuit_breaker(&mut self, _open: bool) -> Result<()> {
        Ok(())
    }
}

#[test]
fn pulls_that_brought_parts_of_a_message_are_acknowledged_with_the_message() {
    for helpers in [0, 3] {
        let setup =
            Setup { source_codec: "string", sink_codec: "string", helpers, ..Setup::default() };
        let mut lanes = setup.lanes();
        let lines = processor::preprocessor("lines", &Config::Null).unwrap();
        lanes.source.inlet.preprocessors = vec![lines, Box::new(processor::Join::default())];
        let left = VecDeque::from([&b"one "[..], b"and ", b"a half\ntwo", b" and ", b"more\n"]);
        let heard = Heard::default();
        let source = Box::new(Fragments { left, heard: heard.clone() });
        let outcome = lanes.run_source(source, &heard, &Takes::of([]));
        assert_eq!(outcome.messages(), ["one and a half", "two and more"]);
        assert_eq!(outcome.heard, pulls(5, true));
    }
}
