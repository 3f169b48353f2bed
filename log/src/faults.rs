//! Faults that tests plant, to show that the crash tests find them.

/// Returns whether the planted fault `name` is enabled, which is only possible in tests of this crate.
#[cfg(not(test))]
pub(crate) const fn fault(_name: &str) -> bool {
    false
}

#[cfg(test)]
pub(crate) use tests::fault;

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        static ENABLED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    pub(crate) fn fault(name: &str) -> bool {
        ENABLED.get() == Some(name)
    }

    /// Enables a fault on this thread until the guard is dropped.
    pub(crate) fn plant(name: &'static str) -> Planted {
        ENABLED.set(Some(name));
        Planted
    }

    pub(crate) struct Planted;

    impl Drop for Planted {
        fn drop(&mut self) {
            ENABLED.set(None);
        }
    }
}
