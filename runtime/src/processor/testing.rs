//! Common helpers for tests of processors.

use serde_json::Value;
use tremor_abi::batch::{HostBatch, HostOutput};
use tremor_pdk::{Batch, Output, Postprocessor, Preprocessor, Result};

use crate::{components::factory, flow::Kind, plugin::HostContext};

/// Creates a built-in preprocessor.
pub(crate) fn preprocessor(name: &str, config: &Value) -> Result<Box<dyn Preprocessor>> {
    factory(Kind::Preprocessor, name).unwrap().preprocessor(config, &HostContext::new("", "", ()))
}

/// Creates a built-in postprocessor.
pub(crate) fn postprocessor(name: &str, config: &Value) -> Result<Box<dyn Postprocessor>> {
    factory(Kind::Postprocessor, name).unwrap().postprocessor(config, &HostContext::new("", "", ()))
}

/// Creates a built-in preprocessor with a valid configuration.
pub(crate) fn pre(name: &str, config: &Value) -> Box<dyn Preprocessor> {
    preprocessor(name, config).unwrap()
}

/// Returns the raw payloads of a batch.
pub(crate) fn messages(batch: &Batch) -> Vec<Vec<u8>> {
    batch.events().iter().filter_map(|event| batch.raw(event)).map(<[u8]>::to_vec).collect()
}

/// Runs a preprocessor over a batch. Returns the errors of the rejected events.
pub(crate) fn process(preprocessor: &mut dyn Preprocessor, batch: &mut Batch) -> Vec<String> {
    let mut output = Output::new();
    preprocessor.process(batch, &mut output).unwrap();
    reasons(&mut output)
}

/// Runs a preprocessor over a batch, and again while it has more input. Returns the resulting batches, and the errors
/// of the rejected events.
pub(crate) fn process_all(
    preprocessor: &mut dyn Preprocessor,
    mut batch: Batch,
) -> (Vec<Batch>, Vec<String>) {
    let mut rejected = process(preprocessor, &mut batch);
    let mut batches = vec![batch];
    while preprocessor.has_more() {
        let mut more = Batch::new();
        rejected.extend(process(preprocessor, &mut more));
        batches.push(more);
    }
    (batches, rejected)
}

fn reasons(output: &mut Output) -> Vec<String> {
    output.take_rejected().iter().map(|rejected| rejected.error.to_string()).collect()
}

/// Runs a postprocessor over messages. Returns the resulting messages, and the errors of the rejected events.
pub(crate) fn frame(
    name: &str,
    config: &Value,
    messages: &[impl AsRef<[u8]>],
) -> (Vec<Vec<u8>>, Vec<String>) {
    let (mut batch, mut output) = (Batch::new(), Output::new());
    messages.iter().for_each(|message| batch.push_message(message.as_ref()));
    postprocessor(name, config).unwrap().process(&mut batch, &mut output).unwrap();
    (self::messages(&batch), reasons(&mut output))
}

/// Ends all streams of a preprocessor.
pub(crate) fn finish(preprocessor: &mut dyn Preprocessor, batch: &mut Batch, output: &mut Output) {
    preprocessor.streams().into_iter().for_each(|stream| batch.stream(stream).end());
    preprocessor.process(batch, output).unwrap();
}

/// Runs a preprocessor over a stream in fragments of `size` bytes. Returns the messages and the errors.
pub(crate) fn run(
    preprocessor: &mut dyn Preprocessor,
    stream: &[u8],
    size: usize,
) -> (Vec<Vec<u8>>, Vec<String>) {
    let (mut found, mut rejected) = (Vec::new(), Vec::new());
    for piece in stream.chunks(size) {
        let mut batch = Batch::new();
        batch.stream(0).push_fragment(piece);
        let (batches, reasons) = process_all(preprocessor, batch);
        rejected.extend(reasons);
        found.extend(batches.iter().flat_map(messages));
    }
    let (mut batch, mut output) = (Batch::new(), Output::new());
    finish(preprocessor, &mut batch, &mut output);
    rejected.extend(reasons(&mut output));
    found.extend(messages(&batch));
    (found, rejected)
}

/// Runs new preprocessors over a stream in fragments of each size, and passes the messages and the errors to `check`.
pub(crate) fn cut_anywhere(
    stream: &[u8],
    make: impl Fn() -> Box<dyn Preprocessor>,
    check: impl Fn(Vec<Vec<u8>>, Vec<String>),
) {
    // Every size up to the length of a header, and a few greater ones.
    let sizes = (1..20).chain((20..stream.len()).step_by(1 + stream.len() / 8));
    for size in sizes.chain([stream.len()]) {
        let (found, rejected) = run(&mut *make(), stream, size.max(1));
        check(found, rejected);
    }
}
