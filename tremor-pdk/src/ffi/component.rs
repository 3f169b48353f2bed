//! The adapters of operators, codecs and processors. No call here allocates.

use abi_stable::{
    sabi_trait::TD_Opaque,
    std_types::{RBox, ROption, RResult, RString, RVec},
};
use tremor_abi::{
    component::{
        RawCodec, RawCodec_TO, RawCodecBox, RawOperator, RawOperator_TO, RawOperatorBox,
        RawPostprocessor, RawPostprocessor_TO, RawPostprocessorBox, RawPreprocessor,
        RawPreprocessor_TO, RawPreprocessorBox,
    },
    connector::CallResult,
};

use super::{guard::guard, stream::Fused};
use crate::{
    Batch, Codec, Operator, Output, Postprocessor, Preprocessor, Result, driver::CodecDriver,
    dynamic::DynCodec,
};

struct Ffi<T>(Fused<T>);

impl<T> Ffi<T> {
    fn new(component: T) -> Self {
        Self(Fused::new(component))
    }

    fn call(&mut self, what: &str, call: impl FnOnce(&mut T) -> Result<()>) -> CallResult<()> {
        match self.0.call(what, call) {
            Ok(result) => result.into(),
            Err(error) => RResult::RErr(error),
        }
    }

    /// Asks the component something; the default where it has panicked, now or before.
    fn ask<R: Default>(&self, what: &str, ask: impl FnOnce(&T) -> R) -> R {
        self.0.get().and_then(|component| guard(what, || ask(component)).ok()).unwrap_or_default()
    }
}

pub(super) fn operator<T: Operator>(operator: T) -> RawOperatorBox {
    RawOperator_TO::from_ptr(RBox::new(Ffi::new(operator)), TD_Opaque)
}

impl<T: Operator> RawOperator for Ffi<T> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.call("process", |operator| operator.process(batch, output))
    }

    fn due(&self) -> ROption<u64> {
        self.ask("due", Operator::due).into()
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.call("on_time", |operator| operator.on_time(now, batch, output))
    }

    fn on_drain(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.call("on_drain", |operator| operator.on_drain(batch, output))
    }

    fn held(&self) -> usize {
        self.ask("held", Operator::held)
    }

    fn ports(&self) -> CallResult<RVec<RString>> {
        let ports = |operator: &T| operator.ports().into_iter().map(RString::from).collect();
        guard("ports", || self.0.get().map(ports).unwrap_or_default()).into()
    }
}

pub(super) fn codec<T: Codec>(codec: T) -> RawCodecBox {
    RawCodec_TO::from_ptr(RBox::new(Ffi::new(CodecDriver::new(codec))), TD_Opaque)
}

impl<T: Codec> RawCodec for Ffi<CodecDriver<T>> {
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.call("decode", |codec| codec.decode(batch, output))
    }

    fn encode(
        &mut self,
        batch: &mut Batch,
        encoded: &mut Batch,
        output: &mut Output,
    ) -> CallResult<()> {
        self.call("encode", |codec| codec.encode(batch, encoded, output))
    }
}

pub(super) fn preprocessor<T: Preprocessor>(preprocessor: T) -> RawPreprocessorBox {
    RawPreprocessor_TO::from_ptr(RBox::new(Ffi::new(preprocessor)), TD_Opaque)
}

impl<T: Preprocessor> RawPreprocessor for Ffi<T> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.call("process", |preprocessor| preprocessor.process(batch, output))
    }

    fn has_more(&self) -> bool {
        self.ask("has_more", Preprocessor::has_more)
    }

    fn holds(&self, stream: u64) -> bool {
        self.ask("holds", |preprocessor| preprocessor.holds(stream))
    }

    fn streams(&self) -> RVec<u64> {
        self.ask("streams", |preprocessor| preprocessor.streams().into())
    }
}

pub(super) fn postprocessor<T: Postprocessor>(postprocessor: T) -> RawPostprocessorBox {
    RawPostprocessor_TO::from_ptr(RBox::new(Ffi::new(postprocessor)), TD_Opaque)
}

impl<T: Postprocessor> RawPostprocessor for Ffi<T> {
    fn suffix(&self) -> ROption<RVec<u8>> {
        self.ask("suffix", |postprocessor| postprocessor.suffix().map(RVec::from)).into()
    }

    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.call("process", |postprocessor| postprocessor.process(batch, output))
    }
}
