//! The two sides of a connector within one connection: how they are made, and which ends first.

use std::{future::poll_fn, pin::Pin, task::Poll};

use tremor_pdk::{
    Error,
    dynamic::{DynConnector, DynSink, DynSource},
};

use crate::engine::{life::connection::End, sink::SinkSide};
use crate::executor;

/// Makes the sides that the flow has a use for.
pub(crate) async fn sides(
    connector: &mut dyn DynConnector,
    is_source: bool,
    is_sink: bool,
    started: &mut bool,
) -> Result<(Option<Box<dyn DynSource>>, Option<Box<dyn DynSink>>), Error> {
    connector.on_connection_established().await?;
    let (mut source, mut sink) = (None, None);
    if is_source {
        source = Some(connector.create_source().await?.ok_or_else(|| cannot_be("source"))?);
    }
    if is_sink {
        sink = Some(connector.create_sink().await?.ok_or_else(|| cannot_be("sink"))?);
    }
    if !*started {
        connector.on_start().await?;
        *started = true;
    }
    Ok((source, sink))
}

/// What a connection waits for once its source brings nothing more.
pub(crate) enum Step {
    Settled(Result<(), Error>),
    SinkEnded(Box<SinkSide>, End),
}

/// The end of either, which is not there any more then; `None` once neither is.
pub(crate) async fn next_end(
    settling: &mut Option<executor::Task<Result<(), Error>>>,
    sink: &mut Option<executor::Task<(SinkSide, End)>>,
) -> Option<Step> {
    poll_fn(|context| {
        if let Some(task) = settling
            && let Poll::Ready(result) = Pin::new(task).poll(context)
        {
            *settling = None;
            return Poll::Ready(Some(Step::Settled(result)));
        }
        if let Some(task) = sink
            && let Poll::Ready((side, end)) = Pin::new(task).poll(context)
        {
            *sink = None;
            return Poll::Ready(Some(Step::SinkEnded(Box::new(side), end)));
        }
        if settling.is_none() && sink.is_none() { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

fn cannot_be(side: &str) -> Error {
    Error::unsupported(format_args!(
        "this connector has no {side}, but the flow links it as one; link it the other way around, \
         or use another type"
    ))
}
