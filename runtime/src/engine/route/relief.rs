//! Relief of sources by tasks that are no sources: the task of a pipeline and of a sink.

use std::time::{Duration, Instant};

use crate::engine::{control::Control, route::router::Router, tuning::RELIEF};

/// Time between two checks whether sources wait for what queues can give up, while none does.
const UNBOUND: Duration = Duration::from_millis(100);

/// The checks whether sources wait for what the queues that a task feeds can give up. The sources do not feed these
/// queues, so they cannot relieve themselves.
pub(crate) struct Relief {
    /// Names of the connectors whose events may reach the task.
    sources: Vec<String>,
    /// Time of the next check. `None` if the queues give nothing up.
    at: Option<Instant>,
}

impl Relief {
    /// Creates the checks of the task of `router`, which events of the connectors `sources` may reach.
    pub(crate) fn new(sources: Vec<String>, router: &Router) -> Self {
        let at = router.relieves.memory.then(|| router.clock().now());
        Self { sources, at }
    }

    /// Returns the time of the next check.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.at
    }

    /// Lets queues give batches up if a source waits for them.
    pub(crate) async fn check(&mut self, router: &mut Router, control: &Control) {
        let bound = control.bound(&self.sources, router.relieves);
        if let Some(bound) = bound {
            router.relieve(bound).await;
        }
        self.at = Some(control.clock().after(if bound.is_some() { RELIEF } else { UNBOUND }));
    }
}
