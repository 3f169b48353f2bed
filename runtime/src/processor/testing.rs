//! What tests of processors have in common.

use serde_json::Value;
use tremor_abi::batch::{HostBatch, HostOutput};
use tremor_pdk::{Batch, Output, Postprocessor, Preprocessor, Result};

use crate::{components::factory, flow::Kind, plugin::HostContext};

/// A preprocessor that is built in.
pub(crate) fn preprocessor(name: &str, config: &Value) -> Result<Box<dyn Preprocessor>> {
    factory(Kind::Preprocessor, name).unwrap().preprocessor(config, &HostContext::new("", "", ()))
}

/// A postprocessor that is built in.
pub(crate) fn postprocessor(name: &str, config: &Value) -> Result<Box<dyn Postprocessor>> {
    factory(Kind::Postprocessor, name).unwrap().postprocessor(config, &HostContext::new("", "", ()))
}

/// A preprocessor with a configuration that is right.
pub(crate) fn pre(name: &str, config: &Value) -> Box<dyn Preprocessor> {
    preprocessor(name, config).unwrap()
}

/// The raw payloads of a batch.
pub(crate) fn messages(batch: &Batch) -> Vec<Vec<u8>> {
    batch.events().iter().filter_map(|event| batch.raw(event)).map(<[u8]>::to_vec).collect()
}

/// Runs a preprocessor over a batch; says why it rejected what it rejected.
pub(crate) fn process(preprocessor: &mut dyn Preprocessor, batch: &mut Batch) -> Vec<String> {
    let mut output = Output::new();
    preprocessor.process(batch, &mut output).unwrap();
    reasons(&mut output)
}

/// Runs a preprocessor over a batch, and again while it has more: what came of each, and why it
/// rejected what it rejected.
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

/// What a postprocessor makes of messages, and why it rejected what it rejected.
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

/// All streams end.
pub(crate) fn finish(preprocessor: &mut dyn Preprocessor, batch: &mut Batch, output: &mut Output) {
    preprocessor.streams().into_iter().for_each(|stream| batch.stream(stream).end());
    preprocessor.process(batch, output).unwrap();
}

/// Gives a stream to a preprocessor in pieces of one size.
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

/// Gives a stream to a new preprocessor in pieces of every size, and what comes of each to `check`.
pub(crate) fn cut_anywhere(
    stream: &[u8],
    make: impl Fn() -> Box<dyn Preprocessor>,
    check: impl Fn(Vec<Vec<u8>>, Vec<String>),
) {
    // Every size that a header has, and then fewer.
    let sizes = (1..20).chain((20..stream.len()).step_by(1 + stream.len() / 8));
    for size in sizes.chain([stream.len()]) {
        let (found, rejected) = run(&mut *make(), stream, size.max(1));
        check(found, rejected);
    }
}
