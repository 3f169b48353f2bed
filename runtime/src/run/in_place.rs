//! Connectors that a reload replaces while their flows run, and links that it changes.
//!
//! These connectors all close before the first successor connects, so that they can exchange their ports.

use crate::engine::{Relinking, Stage, Succession, Withdrawn};

/// The connectors that a reload hands over to their successors, and the changes of links.
#[derive(Default)]
pub(super) struct InPlace {
    replaced: Vec<Replaced>,
    /// Changes of links, each with the name of the flow.
    pub(super) links: Vec<(String, Relinking)>,
    withdrawn: Vec<Withdrawn>,
}

/// A connector of a flow.
struct Replaced {
    flow: String,
    succession: Succession,
}

impl Replaced {
    fn name(&self) -> String {
        format!("connector `{}` of flow `{}`", self.succession.connector(), self.flow)
    }
}

impl InPlace {
    pub(super) fn add(&mut self, flow: &str, succession: Succession) {
        self.replaced.push(Replaced { flow: flow.to_owned(), succession });
    }

    /// Lets the connectors close.
    pub(super) fn request(&mut self) {
        self.replaced.iter_mut().for_each(|it| it.succession.request());
    }

    /// Lets the connectors that have successors close again, to return to their previous specifications.
    pub(super) fn request_back(&self) {
        self.replaced.iter().for_each(|it| it.succession.request_back());
    }

    /// Lets the connectors connect, once all have closed.
    pub(super) fn release(&self, is_on_trial: bool) {
        self.replaced.iter().for_each(|it| it.succession.release(is_on_trial));
    }

    /// Lets the connectors that have joined flows leave again.
    pub(super) fn withdraw(&mut self) {
        self.withdrawn = self.links.drain(..).map(|(_, it)| it.withdraw()).collect();
    }

    /// Returns whether all connectors have closed.
    pub(super) fn are_closed(&self) -> bool {
        self.withdrawn.iter().all(Withdrawn::have_ended)
            && !self.replaced.iter().any(|it| matches!(it.succession.stage(), Stage::Requested))
    }

    /// Starts the connectors that join flows.
    pub(super) fn start(&mut self) {
        self.links.iter_mut().for_each(|(_, it)| it.start());
    }

    /// Returns whether all connectors have tried to connect.
    pub(super) fn are_tried(&self) -> bool {
        let are_joined = self.links.iter().all(|(_, it)| it.are_tried());
        are_joined
            && !self.replaced.iter().any(|it| {
                matches!(
                    it.succession.stage(),
                    Stage::Requested | Stage::Released | Stage::Exchanged
                )
            })
    }

    /// Ends the trial of the connectors, which keep their successors.
    pub(super) fn settle(&mut self) {
        self.replaced.clear();
    }

    /// Returns an error for each connector that has not closed.
    pub(super) fn not_closed(&self, seconds: u64) -> Vec<String> {
        let open =
            self.replaced.iter().filter(|it| matches!(it.succession.stage(), Stage::Requested));
        open.map(|it| format!("error: {} did not close within {seconds} s", it.name())).collect()
    }

    /// Returns an error for each connector that has ended before it could get its successor.
    pub(super) fn ended(&self) -> Vec<String> {
        let ended = self.replaced.iter().filter(|it| matches!(it.succession.stage(), Stage::Ended));
        let error = |it: &Replaced| {
            format!("error: {} has ended meanwhile; reload again to replace its flow", it.name())
        };
        ended.map(error).collect()
    }

    /// Returns the errors of the successors that have failed.
    pub(super) fn failures(&self) -> Vec<String> {
        let failed = self.replaced.iter().filter_map(|it| match it.succession.stage() {
            Stage::Failed(error) => Some(format!("error: {} failed: {error}", it.name())),
            _ => None,
        });
        let joined = self.links.iter().flat_map(|(flow, links)| {
            links.failures().into_iter().map(move |(connector, error)| {
                format!("error: connector `{connector}` of flow `{flow}` failed: {error}")
            })
        });
        failed.chain(joined).collect()
    }

    /// Returns a note that names the connections that the reload has closed, if there are any.
    pub(super) fn closed(&self) -> Option<String> {
        let closed = self.replaced.iter().filter(|it| it.succession.was_connected());
        let names: Vec<_> = closed.map(Replaced::name).collect();
        (!names.is_empty()).then(|| format!("note: connections were closed: {}", names.join(", ")))
    }

    /// Returns a note for each connector that was handed back and cannot connect as before.
    pub(super) fn not_restored(&self) -> Vec<String> {
        let notes = self.replaced.iter().filter_map(|it| match it.succession.stage() {
            Stage::Tried(Some(error)) => Some(format!(
                "note: {} cannot connect as before, and tries again: {error}",
                it.name()
            )),
            Stage::Requested => Some(format!(
                "note: {} has not closed, and returns to its previous specification when it has",
                it.name()
            )),
            _ => None,
        });
        notes.collect()
    }
}
