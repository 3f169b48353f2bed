//! Operators, codecs and processors of loaded plugins behind plain Rust types.
//!
//! Successful calls allocate nothing here. The data that a plugin adds to a batch is validated before it is read.

use std::sync::Arc;

use serde::Serialize;
use tremor_abi::{
    batch::{Claims, HostBatch, HostOutput, Mark},
    component::{RawCodecBox, RawOperatorBox, RawPostprocessorBox, RawPreprocessorBox},
    module::{ArtefactRef, ConstructorsRef},
};
use tremor_pdk::{Batch, Operator, Output, Postprocessor, Preprocessor, Result};

use super::{
    Error, ErrorKind, HostContext, InstanceHost, Library, Policy,
    claims::settled,
    connector::InstanceInfo,
    connector::{other_kind, to_value},
    load::load_found,
};
use crate::{
    dynamic::DynCodec,
    linked::{self, LinkedComponent},
};

/// Factory of the instances of one component of a library. The component is not a connector.
#[derive(Clone)]
pub struct ComponentFactory {
    name: String,
    make: Make,
}

#[derive(Clone)]
enum Make {
    Loaded(ConstructorsRef),
    Linked(LinkedComponent),
}

/// Defines a constructor for each kind. The expression after the colon wraps an instance of a loaded plugin.
macro_rules! constructors {
    ($($(#[$about:meta])* $kind:ident($linked:ident) -> $made:ty: |$raw:ident| $loaded:expr)*) => {$(
        $(#[$about])*
        ///
        /// # Errors
        /// Errors of the component's constructor, usually of kind configuration; kind panicked if it panicked.
        pub fn $kind(
            &self,
            config: &impl Serialize,
            host: &impl InstanceHost,
        ) -> Result<Box<$made>> {
            match &self.make {
                Make::Loaded(constructors) => {
                    let (make, id) = (constructors.$kind(), host.name().into());
                    let $raw = make(id, &to_value(config)?, host.handle()).into_result()?;
                    Ok(Box::new($loaded))
                }
                Make::Linked(LinkedComponent { make: linked::Make::$linked(make), .. }) => {
                    make(host.name(), &to_value(config)?, host.handle())
                }
                Make::Linked(other) => Err(other_kind(other)),
            }
        }
    )*};
}

impl ComponentFactory {
    /// Creates a factory for a built-in component.
    pub(crate) fn of(component: LinkedComponent) -> Self {
        Self { name: component.name.to_owned(), make: Make::Linked(component) }
    }

    /// Loads the library, unless it is linked, and looks up the component. `kind` is the name of its kind in
    /// metadata.
    ///
    /// # Errors
    /// Errors of [`load`](super::load()), and kind [`UnknownArtefact`](ErrorKind::UnknownArtefact).
    pub fn load(library: &Library, kind: &str, name: &str, policy: Policy) -> Result<Self, Error> {
        let factory = |make| Self { name: name.to_owned(), make };
        if let Some(linked) = library.linked_component(kind, name) {
            return Ok(factory(Make::Linked(linked)));
        }
        let plugin = load_found(library, policy)?;
        let artefact: ArtefactRef = plugin.artefact(kind, name)?;
        let constructors = artefact.constructors().ok_or_else(|| {
            let message = format!("its {kind} `{name}` has no constructor");
            Error::new(ErrorKind::MetadataMismatch, library.path(), message)
        })?;
        Ok(factory(Make::Loaded(constructors)))
    }

    constructors! {
        /// Creates an operator. Its name is the one that `host` returns.
        operator(Operator) -> dyn Operator: |raw| {
            let ports = raw.ports().into_result()?.into_iter().map(String::from).collect();
            LoadedOperator { raw, ports, mark: Mark::default() }
        }

        /// Creates a codec.
        codec(Codec) -> dyn DynCodec: |raw| LoadedCodec { raw }

        /// Creates a preprocessor.
        preprocessor(Preprocessor) -> dyn Preprocessor: |raw| LoadedPreprocessor { raw }

        /// Creates a postprocessor.
        postprocessor(Postprocessor) -> dyn Postprocessor: |raw| {
            let suffix = raw.suffix().into_option().map(Into::into);
            LoadedPostprocessor { raw, suffix }
        }
    }

    /// Creates an instance of a component, to check whether a configuration is valid. `kind` is the name of the kind in
    /// metadata.
    pub(crate) fn check(
        &self,
        kind: &str,
        config: &impl Serialize,
        host: &Arc<HostContext>,
    ) -> Result<InstanceInfo> {
        let ports = match kind {
            "operator" => self.operator(config, host)?.ports(),
            "codec" => self.codec(config, host).map(|_| Vec::new())?,
            "preprocessor" => self.preprocessor(config, host).map(|_| Vec::new())?,
            _ => self.postprocessor(config, host).map(|_| Vec::new())?,
        };
        host.was_respected().map(|()| InstanceInfo { ports, ..InstanceInfo::default() })
    }
}

impl std::fmt::Debug for ComponentFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComponentFactory").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Validates a batch and an output after a call. If an event in them refers to data that does not exist, both are
/// emptied and the call fails.
fn checked(
    result: Result<()>,
    batch: &mut Batch,
    output: &mut Output,
    check: impl Fn(&Batch) -> Result<Claims>,
) -> Result<()> {
    let validated = settled(batch, &check)
        .and_then(|()| output.all_batches_mut().try_for_each(|batch| settled(batch, &check)));
    if validated.is_err() {
        batch.retain(|_| false);
        output.clear();
    }
    validated.and(result)
}

/// Validates an output after a call. If an event in it refers to data that does not exist, the output is emptied and
/// the call fails.
fn checked_output(result: Result<()>, output: &mut Output) -> Result<()> {
    let validated = output.all_batches_mut().try_for_each(|batch| settled(batch, &Batch::validate));
    if validated.is_err() {
        output.clear();
    }
    validated.and(result)
}

struct LoadedOperator {
    raw: RawOperatorBox,
    ports: Vec<String>,
    mark: Mark,
}

impl Operator for LoadedOperator {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        batch.mark(&mut self.mark);
        let result = self.raw.process(batch, output).into_result();
        checked(result, batch, output, |batch| batch.validate_changes(&self.mark))
    }

    fn due(&self) -> Option<u64> {
        self.raw.due().into_option()
    }

    fn on_time(&mut self, now: u64, output: &mut Output) -> Result<()> {
        let result = self.raw.on_time(now, output).into_result();
        checked_output(result, output)
    }

    fn flush(&mut self, output: &mut Output) -> Result<()> {
        let result = self.raw.flush(output).into_result();
        checked_output(result, output)
    }

    fn ports(&self) -> Vec<String> {
        self.ports.clone()
    }
}

struct LoadedCodec {
    raw: RawCodecBox,
}

impl DynCodec for LoadedCodec {
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let result = self.raw.decode(batch, output).into_result();
        checked(result, batch, output, Batch::validate)
    }

    fn encode(
        &mut self,
        batch: &mut Batch,
        encoded: &mut Batch,
        output: &mut Output,
    ) -> Result<()> {
        let result = self.raw.encode(batch, encoded, output).into_result();
        checked(result, encoded, output, Batch::validate)
    }
}

struct LoadedPreprocessor {
    raw: RawPreprocessorBox,
}

impl Preprocessor for LoadedPreprocessor {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let result = self.raw.process(batch, output).into_result();
        checked(result, batch, output, Batch::validate)
    }

    fn has_more(&self) -> bool {
        self.raw.has_more()
    }

    fn due(&self) -> Option<u64> {
        self.raw.due().into_option()
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let result = self.raw.on_time(now, batch, output).into_result();
        checked(result, batch, output, Batch::validate)
    }

    fn buffers(&self, stream: u64) -> bool {
        self.raw.holds(stream)
    }

    fn streams(&self) -> Vec<u64> {
        self.raw.streams().into()
    }
}

struct LoadedPostprocessor {
    raw: RawPostprocessorBox,
    suffix: Option<Vec<u8>>,
}

impl Postprocessor for LoadedPostprocessor {
    fn suffix(&self) -> Option<&[u8]> {
        self.suffix.as_deref()
    }

    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let result = self.raw.process(batch, output).into_result();
        checked(result, batch, output, Batch::validate)
    }
}
