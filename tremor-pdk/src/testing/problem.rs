//! Problems that components report to a test host.

use tremor_abi::host::PROBLEM;

use super::TestHost;

impl TestHost {
    /// Returns the description of a [problem](crate::Problem) of a component, or `None` if the problem does not exist.
    pub fn problem(&self, name: &str) -> Option<String> {
        let name = format!("{PROBLEM}{name}");
        let state = self.0.lock();
        let metric = state.metrics.iter().find(|it| it.name == name && it.value > 0.0);
        metric.map(|metric| metric.help.clone())
    }
}
