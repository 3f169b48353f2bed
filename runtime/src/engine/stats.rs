//! Counts of what became of events, a flow's and updated once a batch.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What became of a flow's events so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters behind [`Counts`].
        #[derive(Debug, Default)]
        pub(crate) struct Stats {
            $($name: AtomicU64,)*
        }

        impl Stats {
            $(pub(crate) fn $name(&self, events: usize) {
                self.$name.fetch_add(events as u64, Ordering::Relaxed);
            })*

            /// The counts at this moment.
            pub(crate) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl std::ops::AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    /// Came in through sources: messages, whether or not they could be decoded.
    events_in,
    /// Were delivered by sinks; once a sink, and dead letters among them.
    events_out,
    /// Left through a linked `err` port.
    dead_lettered,
    /// Were dropped by an operator on purpose, or left through a port that nothing is linked to.
    discarded,
    /// Could not be processed or delivered, and no `err` port took them: failed back to their
    /// source.
    failed,
}

impl Counts {
    /// These, where calls that hang keep events for good: what has come in and is not known to have
    /// ended has failed.
    pub(crate) fn with_the_rest_failed(mut self) -> Self {
        let ended = self.events_out + self.discarded + self.failed;
        self.failed += self.events_in.saturating_sub(ended);
        self
    }
}
