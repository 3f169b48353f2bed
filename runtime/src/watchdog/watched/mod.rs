//! Components of plugins whose calls are recorded.
//!
//! Components are wrapped when they are created, whether loaded or linked, so that no other code has to record calls.

// If a method with a default implementation were not forwarded, the default would be used without notice.
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

/// Record of the calls to one component or one side of a connector, with the methods that write it.
#[derive(Clone)]
pub(crate) struct Watched(Arc<Record>);

impl Watched {
    pub(super) fn new(record: Arc<Record>) -> Self {
        Self(record)
    }

    /// Makes a call that returns its result directly.
    pub(crate) fn call<T>(&self, call: Call, make: impl FnOnce() -> T) -> T {
        let _inside = self.0.enter(call);
        make()
    }

    /// Makes a call that returns a future.
    fn wait<F: Future + Unpin>(&self, call: Call, make: impl FnOnce() -> F) -> Waiting<F> {
        let inside = self.0.enter(call);
        let future = Dropped::new(make(), self);
        inside.leave(false);
        Waiting { future, call, record: self.clone() }
    }

    /// Runs a task that belongs to the runtime, and records each poll of the task as a turn.
    pub(crate) async fn turns<F: Future>(self, task: F) -> F::Output {
        let mut task = pin!(task);
        poll_fn(|context| self.call(Call::Turn, || task.as_mut().poll(context))).await
    }

    /// Returns a future that runs in the background as a task of the component.
    pub(crate) fn task(
        self,
        future: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> impl Future<Output = ()> + Send {
        self.wait(Call::Task, || future)
    }
}

/// Future of a plugin. If it is dropped before it is ready, the call counts as ended.
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

/// Value whose drop is recorded, because dropping may run code of a plugin.
struct Dropped<T> {
    // The order matters: fields are dropped in the order of their declaration.
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
        // The guard is forgotten, so that the record shows this call until `After` is dropped.
        std::mem::forget(self.0.0.enter(Call::Drop));
    }
}

struct After(Watched);

impl Drop for After {
    fn drop(&mut self) {
        self.0.0.close();
    }
}
