//! Adapters of operators, codecs and processors. Their calls do not allocate.

use abi_stable::std_types::{ROption, RString, RVec};
use tremor_abi::{
    component::{RawCodec, RawOperator, RawPostprocessor, RawPreprocessor},
    connector::CallResult,
};

use super::{fused::Fused, guard::guard};
use crate::{
    Batch, Codec, Operator, Output, Postprocessor, Preprocessor, driver::CodecDriver,
    dynamic::DynCodec,
};

/// Returns the due time of a component. After a panic, the component is due at once, because the error of the panic is
/// that of the next call.
fn due<T>(fused: &Fused<T>, due: impl FnOnce(&T) -> Option<u64>) -> ROption<u64> {
    let failed = Some(0);
    if fused.has_unreported() { failed } else { fused.ask("due", [None, failed], due) }.into()
}

impl<T: Operator> RawOperator for Fused<T> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.try_call("process", |operator| operator.process(batch, output))
    }

    fn due(&self) -> ROption<u64> {
        due(self, Operator::due)
    }

    fn on_time(&mut self, now: u64, output: &mut Output) -> CallResult<()> {
        self.try_call("on_time", |operator| operator.on_time(now, output))
    }

    fn flush(&mut self, output: &mut Output) -> CallResult<()> {
        self.try_call("flush", |operator| operator.flush(output))
    }

    fn ports(&self) -> CallResult<RVec<RString>> {
        let ports = |operator: &T| operator.ports().into_iter().map(RString::from).collect();
        guard("ports", || self.get().map(ports).unwrap_or_default()).into()
    }
}

impl<T: Codec> RawCodec for Fused<CodecDriver<T>> {
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.try_call("decode", |codec| codec.decode(batch, output))
    }

    fn encode(
        &mut self,
        batch: &mut Batch,
        encoded: &mut Batch,
        output: &mut Output,
    ) -> CallResult<()> {
        self.try_call("encode", |codec| codec.encode(batch, encoded, output))
    }
}

impl<T: Preprocessor> RawPreprocessor for Fused<T> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.try_call("process", |preprocessor| preprocessor.process(batch, output))
    }

    fn has_more(&self) -> bool {
        // After a panic the host has to make the next call, which returns the error.
        self.has_unreported() || self.ask("has_more", [false, true], Preprocessor::has_more)
    }

    fn due(&self) -> ROption<u64> {
        due(self, Preprocessor::due)
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.try_call("on_time", |preprocessor| preprocessor.on_time(now, batch, output))
    }

    fn holds(&self, stream: u64) -> bool {
        // After a panic, the pulls of the stream have to fail, so they must not count as complete.
        self.ask("buffers", [false, true], |preprocessor| preprocessor.buffers(stream))
    }

    fn streams(&self) -> RVec<u64> {
        let streams = |preprocessor: &T| preprocessor.streams().into();
        self.ask("streams", [RVec::new(), RVec::new()], streams)
    }
}

impl<T: Postprocessor> RawPostprocessor for Fused<T> {
    fn suffix(&self) -> ROption<RVec<u8>> {
        let suffix = |postprocessor: &T| postprocessor.suffix().map(RVec::from);
        self.ask("suffix", [None, None], suffix).into()
    }

    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()> {
        self.try_call("process", |postprocessor| postprocessor.process(batch, output))
    }
}
