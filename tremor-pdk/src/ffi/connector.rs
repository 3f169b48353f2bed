//! The adapter of a connector.

use abi_stable::sabi_trait::TD_Opaque;
use tremor_abi::connector::{
    self as abi, CallFuture, CallResult, CodecNeed, Hook, RawConnector, RawConnectorBox, RawHalves,
    Sides,
};

use super::{fused::Fused, guard::guard, stream};
use crate::dynamic::{CodecRequirement, DynConnector};

pub(super) fn connector(connector: Box<dyn DynConnector>) -> RawConnectorBox {
    RawConnectorBox::from_value(Fused::new(connector), TD_Opaque)
}

impl RawConnector for Fused<Box<dyn DynConnector>> {
    fn codec_requirement(&self) -> abi::CodecRequirement {
        let requirement = || self.get().map(|connector| connector.codec_requirement());
        let (need, default) = match guard("codec_requirement", requirement) {
            Ok(Some(CodecRequirement::Optional(codec))) => (CodecNeed::OPTIONAL, codec),
            Ok(Some(CodecRequirement::Structured)) => (CodecNeed::STRUCTURED, ""),
            Ok(Some(CodecRequirement::Required) | None) | Err(_) => (CodecNeed::REQUIRED, ""),
        };
        abi::CodecRequirement { need, default: default.into() }
    }

    fn sides(&self) -> CallResult<Sides> {
        guard("sides", || self.get().map(|connector| connector.sides()).unwrap_or_default()).into()
    }

    fn connect(&mut self, wanted: Sides) -> CallFuture<'_, RawHalves> {
        self.start("connect", move |connector| async move {
            let halves = connector.connect(wanted).await?.map(stream::source, stream::sink);
            Ok(RawHalves { source: halves.source.into(), sink: halves.sink.into() })
        })
    }

    fn hook(&mut self, hook: Hook) -> CallFuture<'_, ()> {
        self.start(hook.as_str(), move |connector| connector.hook(hook))
    }
}
