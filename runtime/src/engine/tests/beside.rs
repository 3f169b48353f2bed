//! The scaffold of tests with a sink that may stop no source: the source, the sink, and other sinks that accept everything.

use std::sync::Arc;

use super::{
    Control, Report, Setup,
    doubles::{Pulls, ScriptedSink, SinkScript},
    peer::Peer,
};

/// The connectors of a flow: `source`, `sink`, and the sinks `letters` and `peer`, which accept everything.
pub(super) struct Beside {
    pub(super) source: Pulls,
    pub(super) sink: Arc<Peer>,
    pub(super) letters: ScriptedSink,
    pub(super) peer: ScriptedSink,
    /// Replaces the sink `peer` if it is set.
    pub(super) down: Option<Arc<Peer>>,
}

impl Beside {
    pub(super) fn new(source: Pulls, sink: Arc<Peer>) -> Self {
        let [letters, peer] = [(); 2].map(|()| ScriptedSink(SinkScript::of([])));
        Self { source, sink, letters, peer, down: None }
    }

    /// Runs a flow until its end, and `work` at the same time.
    pub(super) fn run_during(&self, setup: Setup, work: impl AsyncFnOnce(&Control)) -> Report {
        let double = self.source.clone();
        let source = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(double.clone())))));
        let setup = setup.connect("source", &source).connect("sink", &self.sink);
        let peer = self.down.clone().unwrap_or_else(|| self.peer.peer());
        let setup = setup.connect("letters", &self.letters.peer()).connect("peer", &peer);
        let control = setup.control.clone();
        setup.plan().run_with(async { work(&control).await })
    }

    /// Runs a flow until its end. The flow must not fail.
    pub(super) fn run(&self, setup: Setup) -> Report {
        let report = self.run_during(setup, async |_| {});
        assert!(report.failure.is_none(), "{:?}", report.failure);
        report
    }

    /// Returns the sorted numbers that reached `letters`.
    pub(super) fn letters(&self) -> Vec<u64> {
        numbers_at(&self.letters)
    }
}

/// Returns the sorted numbers that a sink delivered.
pub(super) fn numbers_at(sink: &ScriptedSink) -> Vec<u64> {
    let delivered = sink.0.lock().unwrap().delivered.concat();
    let mut numbers: Vec<u64> = delivered.iter().map(|it| it.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// Creates a sink that never connects.
pub(super) fn down() -> Arc<Peer> {
    Arc::new(Peer::of_sink(Box::new(|_| Err(tremor_pdk::Error::connection_lost("down")))))
}
