//! A list of the pipelines of a flow, to find pipelines whose operators buffer events.

use std::fmt::{self, Debug, Formatter};

/// Returns the number of events that a pipeline has taken and not passed on.
type Events = Box<dyn Fn() -> i64 + Send + Sync>;

/// The pipelines of a flow.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Buffer>);

struct Buffer {
    pipeline: String,
    /// Names of the connectors whose events may reach the pipeline.
    sources: Vec<String>,
    events: Events,
}

impl Buffers {
    /// Adds a pipeline that events of the connectors `sources` may reach. Several tasks may run a pipeline, so only the
    /// first call for it has an effect.
    pub(crate) fn add(&mut self, pipeline: &str, sources: Vec<String>, events: Events) {
        if self.0.iter().any(|it| it.pipeline == pipeline) {
            return;
        }
        self.0.push(Buffer { pipeline: pipeline.to_owned(), sources, events });
    }

    /// Sets the connectors whose events may reach the pipelines of the next version of the flow, and removes all other
    /// pipelines.
    pub(crate) fn retain(&mut self, pipelines: &[(String, Vec<String>)]) {
        self.0.retain_mut(|buffer| {
            let found = pipelines.iter().find(|(name, _)| *name == buffer.pipeline);
            found.into_iter().for_each(|(_, sources)| buffer.sources.clone_from(sources));
            found.is_some()
        });
    }

    /// Returns the names of the pipelines that have events and that may have received them from the connector `source`.
    pub(crate) fn filled_by(&self, source: &str) -> impl Iterator<Item = &str> {
        let feeds = move |it: &&Buffer| it.sources.iter().any(|it| it == source);
        self.0.iter().filter(feeds).filter(|it| (it.events)() > 0).map(|it| it.pipeline.as_str())
    }
}

impl Debug for Buffers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|it| &it.pipeline)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Buffers;

    #[test]
    fn pipeline_with_events_of_a_source_is_found() {
        let mut buffers = Buffers::default();
        buffers.add("window", vec!["in".to_owned()], Box::new(|| 3));
        buffers.add("empty", vec!["in".to_owned()], Box::new(|| 0));
        let found = |source| buffers.filled_by(source).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(found("in"), ["window"]);
        assert!(found("other").is_empty());
    }
}
