//! The adapter of a connector.

use abi_stable::{
    sabi_trait::TD_Opaque,
    std_types::{RBox, ROption},
};
use tremor_abi::connector::{
    self as abi, CallFuture, CodecNeed, RawConnector, RawConnector_TO, RawConnectorBox, RawSinkBox,
    RawSourceBox,
};

use super::{
    call::into_call,
    guard::guard,
    stream::{self, Fused},
};
use crate::{CodecRequirement, Error, dynamic::DynConnector};

struct FfiConnector(Fused<Box<dyn DynConnector>>);

pub(super) fn connector(connector: Box<dyn DynConnector>) -> RawConnectorBox {
    RawConnector_TO::from_ptr(RBox::new(FfiConnector(Fused::new(connector))), TD_Opaque)
}

/// Calls an asynchronous method of the connector under guard: making the future and polling it.
macro_rules! call {
    ($self:ident, $method:ident $(, $argument:expr)*) => {{
        let connector = $self.0.get_mut();
        into_call(stringify!($method), async move {
            match connector {
                Some(connector) => connector.$method($($argument),*).await,
                None => Err(Error::panicked("the connector panicked before")),
            }
        })
    }};
}

macro_rules! forward {
    ($($method:ident,)*) => {
        $(fn $method(&mut self) -> CallFuture<'_, ()> {
            call!(self, $method)
        })*
    };
}

impl RawConnector for FfiConnector {
    fn codec_requirement(&self) -> abi::CodecRequirement {
        let requirement = || self.0.get().map(|connector| connector.codec_requirement());
        let (need, default) = match guard("codec_requirement", requirement) {
            Ok(Some(CodecRequirement::Optional(codec))) => (CodecNeed::OPTIONAL, codec),
            Ok(Some(CodecRequirement::Structured)) => (CodecNeed::STRUCTURED, ""),
            Ok(Some(CodecRequirement::Required) | None) | Err(_) => (CodecNeed::REQUIRED, ""),
        };
        abi::CodecRequirement { need, default: default.into() }
    }

    fn connect(&mut self, attempt: u64) -> CallFuture<'_, bool> {
        call!(self, connect, attempt)
    }

    fn create_source(&mut self) -> CallFuture<'_, ROption<RawSourceBox>> {
        let connector = self.0.get_mut();
        into_call("create_source", async move {
            let Some(connector) = connector else {
                return Err(Error::panicked("the connector panicked before"));
            };
            Ok(connector.create_source().await?.map(stream::source).into())
        })
    }

    fn create_sink(&mut self) -> CallFuture<'_, ROption<RawSinkBox>> {
        let connector = self.0.get_mut();
        into_call("create_sink", async move {
            let Some(connector) = connector else {
                return Err(Error::panicked("the connector panicked before"));
            };
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
