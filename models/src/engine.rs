//! Models of modules of the engine. The doubles simulate a machine that has as many processor cores as tasks.

pub(crate) mod queue;
pub(crate) mod route;
pub(crate) mod source;
pub(crate) mod sync;
pub(crate) mod tracking;

pub(crate) mod processors {
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Processors;

    #[derive(Debug)]
    pub(crate) struct Busy;

    impl Processors {
        pub(crate) fn working(&self) -> Busy {
            Busy
        }

        pub(crate) fn busy_if_free(&self) -> Option<Busy> {
            Some(Busy)
        }

        pub(crate) fn suffice(&self) -> bool {
            true
        }

        pub(crate) fn are_crowded(&self) -> bool {
            false
        }
    }
}

pub(crate) mod spin {
    /// Checks the condition once.
    pub(crate) fn briefly(_: &super::processors::Processors, mut ready: impl FnMut() -> bool) {
        ready();
    }
}

pub(crate) mod tuning {
    use std::time::Duration;

    pub(crate) const BATCHES_FOR_ANOTHER: usize = 1;
    pub(crate) const HELPER_TIME_SLICE: Duration = Duration::MAX;
    pub(crate) const WITHOUT_MORE_HELP: Duration = Duration::ZERO;
}
