//! Components of plugins whose calls are recorded: wrapped where they are made, whether they were
//! loaded or linked, so that nobody else has to think of it.

// A method with a default that is not forwarded would silently be the default.
#![deny(clippy::missing_trait_methods)]

mod component;
mod connector;

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

pub(crate) use self::component::WatchedCodec;
use super::record::{Call, Record};

/// What the calls to one component, or to one side of a connector, are recorded with.
#[derive(Clone)]
pub(crate) struct Watched(Arc<Record>);

impl Watched {
    pub(super) fn new(record: Arc<Record>) -> Self {
        Self(record)
    }

    /// Makes a call that does not wait.
    pub(crate) fn call<T>(&self, call: Call, make: impl FnOnce() -> T) -> T {
        let _inside = self.0.enter(call);
        make()
    }

    /// Makes a call whose answer is a future.
    fn wait<F: Future + Unpin>(&self, call: Call, make: impl FnOnce() -> F) -> Waiting<F> {
        let inside = self.0.enter(call);
        let future = Dropped::new(make(), self);
        inside.leave(false);
        Waiting { future, call, record: self.clone() }
    }

    /// Runs a task of the runtime's own, each poll of which is recorded as a turn.
    pub(crate) async fn turns<F: Future>(self, task: F) -> F::Output {
        let mut task = pin!(task);
        poll_fn(|context| self.call(Call::Turn, || task.as_mut().poll(context))).await
    }

    /// A future that goes on in the background, as a task of the component.
    pub(crate) fn task(
        self,
        future: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> impl Future<Output = ()> + Send {
        self.wait(Call::Task, || future)
    }
}

/// A future of a plugin. What is given up is over.
struct Waiting<F> {
    future: Dropped<F>,
    call: Call,
    record: Watched,
}

impl<F: Future + Unpin> Future for Waiting<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, call, record } = &mut *self;
        let inside = record.0.poll(*call);
        let polled = Pin::new(&mut future.inner).poll(context);
        inside.leave(polled.is_ready());
        polled
    }
}

/// Records that what is in it is dropped: a plugin has something to say there as well.
struct Dropped<T> {
    // In this order: fields are dropped as they stand here.
    _before: Before,
    inner: T,
    _after: After,
}

impl<T> Dropped<T> {
    fn new(inner: T, record: &Watched) -> Self {
        Self { _before: Before(record.clone()), inner, _after: After(record.clone()) }
    }
}

struct Before(Watched);

impl Drop for Before {
    fn drop(&mut self) {
        // The thread stays in it until `After` is dropped.
        std::mem::forget(self.0.0.enter(Call::Drop));
    }
}

struct After(Watched);

impl Drop for After {
    fn drop(&mut self) {
        self.0.0.close();
    }
}
