//! What happens to bytes on either side of a codec: preprocessors put messages together before it,
//! postprocessors frame them behind it. Those that are built in implement the traits that plugins
//! implement as well.

mod base64;
mod chain;
mod compression;
mod framing;
mod join;
mod length_prefixed;
mod lines;
mod reassembly;
mod remove_empty;
#[cfg(test)]
mod testing;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Config;
use tremor_pdk::{
    Batch, Output, Postprocessor, PostprocessorPlugin, Preprocessor, PreprocessorPlugin, Result,
};

pub(crate) use self::{
    chain::{Chain, Piece, Share, StreamEnd},
    framing::Framing,
    join::Join,
};

/// A built-in processor of one direction.
struct Entry<P: ?Sized> {
    name: &'static str,
    schema: fn() -> schemars::Schema,
    make: fn(&Config) -> Result<Box<P>, String>,
}

macro_rules! built_in {
    ($(#[$doc:meta])* $names:ident, $entries:ident: $plugin:ident as $component:ident [$($type:ty),* $(,)?]) => {
        $(#[$doc])*
        pub const $names: &[&str] = &[$(<$type as $plugin>::NAME),*];

        const $entries: &[Entry<dyn $component>] = &[$(Entry {
            name: <$type as $plugin>::NAME,
            schema: || schemars::schema_for!(<$type as $plugin>::Config),
            make: |config| {
                let config = parse(config)?;
                <$type as $plugin>::validate(&config)
                    .and_then(|()| <$type as $plugin>::new(config))
                    .map(|made| -> Box<dyn $component> { Box::new(made) })
                    .map_err(|error| error.message().to_owned())
            },
        }),*];
    };
}

built_in! {
    /// The names that flow files know preprocessors by.
    PREPROCESSORS, PREPROCESSOR_ENTRIES: PreprocessorPlugin as Preprocessor [
        lines::Split,
        length_prefixed::Split,
        join::Join,
        base64::Decode,
        compression::DecompressGzip,
        compression::DecompressZstd,
        compression::DecompressLz4,
        compression::DecompressSnappy,
        compression::DecompressXz,
        compression::DecompressAny,
        remove_empty::RemoveEmpty,
    ]
}
built_in! {
    /// The names that flow files know postprocessors by.
    POSTPROCESSORS, POSTPROCESSOR_ENTRIES: PostprocessorPlugin as Postprocessor [
        lines::End,
        length_prefixed::Prepend,
        base64::Encode,
        compression::CompressGzip,
        compression::CompressZstd,
        compression::CompressLz4,
        compression::CompressSnappy,
        compression::CompressXz,
    ]
}

/// A preprocessor by the name that flow files know it by.
///
/// # Errors
/// What is wrong with the name or the configuration, in a sentence.
pub(crate) fn preprocessor(name: &str, config: &Config) -> Result<Box<dyn Preprocessor>, String> {
    match find(PREPROCESSOR_ENTRIES, name) {
        Some(entry) => (entry.make)(config),
        None => Err(format!("there is no preprocessor `{name}`; there are {PREPROCESSORS:?}")),
    }
}

/// A postprocessor by the name that flow files know it by.
///
/// # Errors
/// What is wrong with the name or the configuration, in a sentence.
pub(crate) fn postprocessor(name: &str, config: &Config) -> Result<Box<dyn Postprocessor>, String> {
    match find(POSTPROCESSOR_ENTRIES, name) {
        Some(entry) => (entry.make)(config),
        None => Err(format!("there is no postprocessor `{name}`; there are {POSTPROCESSORS:?}")),
    }
}

/// The JSON Schema of a preprocessor's configuration.
pub fn preprocessor_schema(name: &str) -> Option<Config> {
    find(PREPROCESSOR_ENTRIES, name).map(|entry| (entry.schema)().to_value())
}

/// The JSON Schema of a postprocessor's configuration.
pub fn postprocessor_schema(name: &str) -> Option<Config> {
    find(POSTPROCESSOR_ENTRIES, name).map(|entry| (entry.schema)().to_value())
}

/// Runs one preprocessor over a batch. Where it fails as a whole, all that is in the batch is
/// rejected but the ends of streams, which those that come behind wait for. `false`: it left
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
    batch.retain(|_, event| {
        if !event.is_stream_end() {
            output.reject(*event, error.clone());
        }
        event.is_stream_end()
    });
    true
}

fn find<P: ?Sized>(entries: &'static [Entry<P>], name: &str) -> Option<&'static Entry<P>> {
    entries.iter().find(|entry| entry.name == name)
}

/// For what has nothing to configure.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoConfig {}

fn parse<T: serde::de::DeserializeOwned>(config: &Config) -> Result<T, String> {
    let empty = Config::Object(serde_json::Map::new());
    let config = if config.is_null() { &empty } else { config };
    T::deserialize(config).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Batch, Error, Output};

    use super::preprocess;

    #[test]
    fn a_batch_that_fails_as_a_whole_is_rejected_but_for_the_ends_of_streams() {
        let (mut batch, mut output) = (Batch::new(), Output::new());
        batch.push_fragment(1, b"a");
        batch.end_stream(1);
        batch.push_message(2, b"b");
        preprocess(&mut batch, &mut output, |_, _| Err(Error::bad_data("no")));
        assert!(batch.events().iter().all(tremor_pdk::abi::batch::Event::is_stream_end));
        assert_eq!(batch.len(), 1);
        let rejected = output.take_rejected();
        let rejected: Vec<_> = rejected.iter().map(|it| batch.original(&it.event)).collect();
        assert_eq!(rejected, [b"a", b"b"]);
    }
}
