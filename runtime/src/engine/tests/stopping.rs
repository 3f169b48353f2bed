//! Flows that are stopped before everything has been delivered.

use std::{
    future::pending,
    pin::pin,
    task::{Context, Poll, Waker},
};

use tremor_pdk::{Batch, Exception, Result};

use super::{Harness, Setup};
use crate::{
    dynamic::{BoxFuture, DynSink},
    engine::{
        control::Phase,
        handle::connection::{Connection, End},
    },
};

/// A sink that accepts deliveries, but does not complete a close.
struct NeverCloses;

impl DynSink for NeverCloses {
    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        _: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        Poll::Ready(Ok(Vec::new()))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(pending())
    }
}

/// Returns whether a sink counts as undrained after its queue has ended and the flow was stopped. `notices_end` is
/// `true` if the task of the sink runs between the two.
fn is_undrained(notices_end: bool) -> bool {
    let Harness { source, mut sink, control, .. } = Setup::default().harness();
    let connection = Connection::default();
    {
        let mut running = pin!(sink.run(Box::new(NeverCloses), &connection));
        let mut context = Context::from_waker(Waker::noop());
        assert!(running.as_mut().poll(&mut context).is_pending());
        drop(source);
        if notices_end {
            assert!(running.as_mut().poll(&mut context).is_pending());
        }
        control.advance(Phase::Stopped);
        let end = running.as_mut().poll(&mut context);
        assert!(matches!(end, Poll::Ready(End::Interrupted)), "{end:?}");
    }
    sink.undrained
}

#[test]
fn queue_that_ends_because_of_a_stop_leaves_nothing_undrained() {
    assert!(!is_undrained(false));
    assert!(is_undrained(true), "the stop interrupts a close that has begun");
}
