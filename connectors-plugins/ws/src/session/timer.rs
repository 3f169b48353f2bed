//! Timers of a connection.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tremor_pdk::Host;

/// A periodic timer.
pub(super) struct Timer {
    host: Host,
    period: Duration,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Timer {
    pub(super) fn new(host: &Host, period: Duration) -> Self {
        Self { host: host.clone(), period, sleep: sleep(host, period) }
    }

    /// Completes once per period.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let elapsed = self.sleep.as_mut().poll(context);
        if elapsed.is_ready() {
            self.sleep = sleep(&self.host, self.period);
        }
        elapsed
    }
}

fn sleep(host: &Host, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let host = host.clone();
    Box::pin(async move { host.sleep(time).await })
}
