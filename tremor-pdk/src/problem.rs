//! Problems of components that continue to work, which the state of their connector shows.

use std::sync::Mutex;

use tremor_abi::host::{HostHandle, MetricKind, PROBLEM};

use crate::{Error, Host, lock};

/// A problem because of which a connector works only in part, such as a file that cannot be read while other files are
/// read. Created by [`Host::problem`](crate::Host::problem).
///
/// While the problem exists, the state of the connector is `retrying`, with the problem as its error. Use a problem for
/// an error that no pull or delivery can return, because the component continues. The component has to retry the
/// operation. It clears the problem once the operation succeeds or is no longer needed. Dropping the value also clears
/// the problem. While there is a problem, `/readyz` answers 503.
///
/// A problem writes no log line.
///
/// ```
/// # use tremor_pdk::{Error, testing::TestHost};
/// # let test = TestHost::new();
/// # let host = test.host();
/// let problem = host.problem("checkpoint");
/// problem.set(&Error::full("cannot write the checkpoint `at`: no space left on device"));
/// assert!(test.problem("checkpoint").unwrap().contains("no space left"));
/// problem.clear();
/// assert_eq!(test.problem("checkpoint"), None);
/// ```
pub struct Problem {
    host: HostHandle,
    /// Name of the gauge that reports the problem.
    gauge: String,
    /// The problem that the host knows. Locked during the calls that report a change.
    reported: Mutex<Option<Error>>,
}

impl Problem {
    /// Creates a problem that does not exist at first.
    pub(crate) fn new(host: HostHandle, name: &str) -> Self {
        Self { host, gauge: format!("{PROBLEM}{name}"), reported: Mutex::new(None) }
    }

    /// Reports that the problem exists, and describes it. Call this again if the description changes; otherwise a
    /// repeated call has no effect.
    pub fn set(&self, error: &Error) {
        self.report(Some(error));
    }

    /// Reports that the problem does not exist any more.
    pub fn clear(&self) {
        self.report(None);
    }

    /// Sets or clears the problem, according to the result of the operation that has the problem.
    pub fn update<T>(&self, result: &crate::Result<T>) {
        self.report(result.as_ref().err());
    }

    fn report(&self, error: Option<&Error>) {
        let mut reported = lock(&self.reported);
        if reported.as_ref() == error {
            return;
        }
        *reported = error.cloned();
        let description = error.map(ToString::to_string).unwrap_or_default();
        let number = self.host.metric(MetricKind::GAUGE, &self.gauge, &description);
        self.host.record(number, error.map_or(0.0, |error| f64::from(error.kind().0) + 1.0));
    }
}

impl Drop for Problem {
    fn drop(&mut self) {
        self.clear();
    }
}

shows!(Problem);

impl Host {
    /// Returns a problem of this component, which does not exist until it is set. `name` consists of lowercase letters
    /// and `_`, and distinguishes the problems of a component.
    pub fn problem(&self, name: &str) -> Problem {
        Problem::new(self.handle().clone(), name)
    }
}
