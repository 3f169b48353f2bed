//! Changes of the components of a flow while it runs.

use super::Control;

impl Control {
    /// Removes a connector, and its sink with the queue.
    pub(crate) fn remove(&self, connector: &str) {
        self.state.update(|state| {
            state.connectors.retain(|it| it.name() != connector);
            for sink in state.sinks.extract_if(.., |it| it.connector.name() == connector) {
                state.queues.remove(sink.node);
            }
        });
        self.calls.forget(connector);
        self.memory.remove(connector);
    }

    /// Sets the sources whose events may reach the sink of `connector`, each with its node and the name of its connector.
    pub(crate) fn set_sources(&self, connector: &str, sources: &[(u32, String)]) {
        self.state.update(|state| {
            let sinks = state.sinks.iter_mut().filter(|it| it.connector.name() == connector);
            sinks.for_each(|sink| sink.sources = sources.to_vec());
        });
    }

    /// Sets the pipelines of the flow, each with the connectors whose events may reach the pipeline. Pipelines that
    /// have joined were added before.
    pub(crate) fn retain_pipelines(&self, pipelines: &[(String, Vec<String>)]) {
        self.state.update(|state| state.buffers.retain(pipelines));
    }
}
