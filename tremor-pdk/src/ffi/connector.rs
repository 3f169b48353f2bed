//! The adapter of a connector.

use abi_stable::{sabi_trait::TD_Opaque, std_types::ROption};
use tremor_abi::connector::{
    self as abi, CallFuture, CodecNeed, RawConnector, RawConnectorBox, RawSinkBox, RawSourceBox,
};

use super::{fused::Fused, guard::guard, stream};
use crate::{CodecRequirement, dynamic::DynConnector};

pub(super) fn connector(connector: Box<dyn DynConnector>) -> RawConnectorBox {
    RawConnectorBox::from_value(Fused::new(connector), TD_Opaque)
}

macro_rules! forward {
    ($($method:ident,)*) => {
        $(fn $method(&mut self) -> CallFuture<'_, ()> {
            self.start(stringify!($method), |connector| connector.$method())
        })*
    };
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

    fn connect(&mut self, attempt: u64) -> CallFuture<'_, bool> {
        self.start("connect", move |connector| connector.connect(attempt))
    }

    fn create_source(&mut self) -> CallFuture<'_, ROption<RawSourceBox>> {
        self.start("create_source", |connector| async move {
            Ok(connector.create_source().await?.map(stream::source).into())
        })
    }

    fn create_sink(&mut self) -> CallFuture<'_, ROption<RawSinkBox>> {
        self.start("create_sink", |connector| async move {
            Ok(connector.create_sink().await?.map(stream::sink).into())
        })
    }

    forward! {
        on_start,
        on_pause,
        on_resume,
        on_drain,
        on_stop,
        on_connection_lost,
        on_connection_established,
    }
}
