//! Limits of the time for which a call may hold its thread.

use std::{sync::Arc, time::Duration};

use super::{PERIOD, lasted};

/// A limit for calls that hold a thread.
#[derive(Clone)]
pub(crate) struct Limit {
    /// The limit, in looks.
    pub(super) looks: u32,
    tell: Arc<dyn Fn(&Overrun) + Send + Sync>,
}

/// A call that is over its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overrun {
    /// The call, with the part of the component that it is made to.
    pub(crate) call: String,
    /// Time for which the call has held its thread, as far as that was seen.
    pub(crate) lasted: Duration,
}

/// A notification of the supervision of a component.
pub(super) struct Told {
    limit: Limit,
    overrun: Overrun,
}

impl Limit {
    /// Calls that hold their thread for longer than `limit` are told to `tell`, on the thread of the
    /// watchdog: it may not block.
    pub(crate) fn new(limit: Duration, tell: impl Fn(&Overrun) + Send + Sync + 'static) -> Self {
        let looks = limit.as_nanos().div_ceil(PERIOD.as_nanos());
        Self { looks: u32::try_from(looks).unwrap_or(u32::MAX).max(1), tell: Arc::new(tell) }
    }

    /// Makes the notification of a call that held its thread for this number of looks.
    pub(super) fn overrun(&self, call: String, looks: u32) -> Told {
        Told { limit: self.clone(), overrun: Overrun { call, lasted: lasted(looks) } }
    }
}

impl Told {
    pub(super) fn tell(&self) {
        (self.limit.tell)(&self.overrun);
    }
}
