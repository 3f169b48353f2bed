//! Times that a connection waits for.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tremor_pdk::Host;

/// A timer that goes off again and again.
pub(super) struct Timer {
    host: Host,
    period: Duration,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Timer {
    pub(super) fn new(host: &Host, period: Duration) -> Self {
        Self { host: host.clone(), period, sleep: sleep(host, period) }
    }

    /// Ready each time that it has gone off.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let gone_off = self.sleep.as_mut().poll(context);
        if gone_off.is_ready() {
            self.sleep = sleep(&self.host, self.period);
        }
        gone_off
    }
}

fn sleep(host: &Host, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let host = host.clone();
    Box::pin(async move { host.sleep(time).await })
}
