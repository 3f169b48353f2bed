//! What happens to bytes on either side of a codec: preprocessors put messages together before it,
//! postprocessors frame them after it. Each is written as a plugin's processor is.

pub(crate) mod base64;
mod chain;
pub(crate) mod compression;
#[cfg(test)]
pub(crate) mod endless;
mod framing;
mod join;
pub(crate) mod length_prefixed;
pub(crate) mod lines;
mod remove_empty;
mod streams;
#[cfg(test)]
mod testing;

use tremor_pdk::{Batch, Output, Result};

pub(crate) use self::{
    chain::{Chain, MakePreprocessor, Next, Piece, Share, StreamEnd},
    framing::Framing,
    join::Join,
    remove_empty::RemoveEmpty,
};

/// Maximum length of a message in bytes, unless a flow says otherwise: decoded, it may have as many as any event.
const fn max_length() -> usize {
    4 << 20
}

/// Runs one preprocessor over a batch. Where it fails as a whole, all that is in the batch is
/// rejected but the ends of streams, which the next preprocessors wait for. `false`: it left
/// nothing that could be.
fn preprocess(
    batch: &mut Batch,
    output: &mut Output,
    step: impl FnOnce(&mut Batch, &mut Output) -> Result<()>,
) -> bool {
    let Err(error) = step(batch, output) else { return true };
    if batch.is_empty() {
        tracing::error!(%error, "a preprocessor failed, and left nothing that could go to `err`");
        return false;
    }
    batch.retain(|event| {
        if !event.is_stream_end() {
            output.reject(event, error.clone());
        }
        event.is_stream_end()
    });
    true
}

#[cfg(test)]
mod tests {
    use tremor_abi::batch::{HostBatch, HostOutput};
    use tremor_pdk::{Batch, Error, Output};

    use super::preprocess;

    #[test]
    fn a_batch_that_fails_as_a_whole_is_rejected_but_for_the_ends_of_streams() {
        let (mut batch, mut output) = (Batch::new(), Output::new());
        batch.stream(1).push_fragment(b"a");
        batch.stream(1).end();
        batch.stream(2).push_message(b"b");
        preprocess(&mut batch, &mut output, |_, _| Err(Error::bad_data("no")));
        assert!(batch.events().iter().all(tremor_abi::batch::Event::is_stream_end));
        assert_eq!(batch.len(), 1);
        let rejected = output.take_rejected();
        let rejected: Vec<_> = rejected.iter().map(|it| batch.original(&it.event)).collect();
        assert_eq!(rejected, [b"a", b"b"]);
    }
}
