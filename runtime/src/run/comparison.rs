//! Comparison of the flows of files with those that run.

use super::{
    Checked,
    supervisor::{Member, Supervisor},
};
use crate::{
    flow::{ChangedConnector, ChangedParts, Difference, Flow},
    reloads::{Change, ConnectorChange, FlowChange},
};

/// Flows of a reload, and what happens to each of them.
pub(super) struct Plan {
    pub(super) changes: Vec<FlowChange>,
    pub(super) next: Vec<Checked>,
}

impl Plan {
    /// Compares the flows `next` with those that run.
    pub(super) fn of(
        next: Vec<Checked>,
        running: &[(Checked, Member)],
        supervisor: &Supervisor,
    ) -> Self {
        let compared = next.iter().map(|flow| compare(flow, running, supervisor));
        let mut changes: Vec<_> = compared.collect();
        for (flow, _) in running {
            let name = flow.flow.name();
            if !next.iter().any(|it| it.flow.name() == name) {
                changes.push(FlowChange::new(name, Change::Removed, None));
            }
        }
        Self { changes, next }
    }

    /// Returns the flows that have to start.
    pub(super) fn starting(&self) -> impl Iterator<Item = &Checked> {
        let changes = self.changes.iter().zip(&self.next);
        let starts = |(it, _): &(&FlowChange, _)| !is_kept(it.change);
        changes.filter(starts).map(|(_, flow)| flow)
    }

    /// Returns the flows that continue with changes.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&FlowChange, &Checked)> {
        let changes = self.changes.iter().zip(&self.next);
        changes.filter(|(it, _)| it.change == Change::Changed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.iter().all(|it| it.change == Change::Kept)
    }

    /// Returns whether the running flow with this name has to end.
    pub(super) fn ends(&self, name: &str) -> bool {
        let ends = |it: &&FlowChange| matches!(it.change, Change::Replaced | Change::Removed);
        self.changes.iter().filter(ends).any(|it| it.flow == name)
    }
}

/// Compares a flow with the running one of the same name.
fn compare(next: &Checked, running: &[(Checked, Member)], supervisor: &Supervisor) -> FlowChange {
    let name = next.flow.name();
    let found = running.iter().find(|(it, _)| it.flow.name() == name);
    let Some((running, member)) = found else {
        return FlowChange::new(name, Change::Added, None);
    };
    let replaced = |reason| FlowChange::new(name, Change::Replaced, Some(reason));
    let ChangedParts { connectors: changed, links } = match next.flow.difference(&running.flow) {
        Difference::Flow(reason) => return replaced(reason),
        Difference::Parts(parts) => parts,
        Difference::Nothing => ChangedParts::default(),
    };
    if let Some(path) = next.components.changed_library(&next.flow, &running.components) {
        return replaced(format!("the plugin {} has changed", path.display()));
    }
    if changed.is_empty() && links.is_empty() {
        return FlowChange::new(name, Change::Kept, None);
    }
    let links = (!links.is_empty()).then(|| links.join(", "));
    if let Some(links) = &links
        && let Some(obstacle) = supervisor.link_obstacle(next, running, &member.handle)
    {
        return replaced(format!("{links}, and {obstacle}"));
    }
    for ChangedConnector { name, keys } in &changed {
        let earlier = (&*running.components, &*running.flow);
        let obstacle = member.handle.obstacle(name, keys).or_else(|| {
            let is_affected = member.handle.is_coded_elsewhere(name)
                && !next.components.carries_same(name, &next.flow, earlier);
            is_affected.then(|| format!("templates of `{name}` read other fields of events"))
        });
        if let Some(obstacle) = obstacle {
            return replaced(obstacle);
        }
    }
    let connectors = connectors(&next.flow, &running.flow, &changed);
    FlowChange { connectors, ..FlowChange::new(name, Change::Changed, links) }
}

/// Returns the changes of the connectors of a flow that continues: first those of the file, then those that are removed.
fn connectors(next: &Flow, before: &Flow, changed: &[ChangedConnector]) -> Vec<ConnectorChange> {
    let is_removed = |name: &str| !next.spec.connectors.iter().any(|it| it.name.value == name);
    let removed = before.spec.connectors.iter().filter(|it| is_removed(&it.name.value));
    let change = |name: &str| {
        let reason = changed.iter().find(|it| it.name == name).map(ChangedConnector::reason);
        match (before.is_linked(name), next.is_linked(name)) {
            (true, true) if reason.is_some() => (Change::Replaced, reason),
            (false, true) => (Change::Added, None),
            (true, false) => (Change::Removed, None),
            _ => (Change::Kept, None),
        }
    };
    let connectors = next.spec.connectors.iter().chain(removed).map(|connector| {
        let connector = connector.name.value.clone();
        let (change, reason) = change(&connector);
        ConnectorChange { connector, change, reason }
    });
    connectors.collect()
}

impl FlowChange {
    fn new(flow: &str, change: Change, reason: Option<String>) -> Self {
        Self { flow: flow.to_owned(), change, reason, connectors: Vec::new() }
    }

    /// Returns whether links, pipelines or the set of connectors change while the flow runs.
    pub(super) fn is_relinked(&self) -> bool {
        self.change == Change::Changed && self.reason.is_some()
    }
}

impl ChangedConnector {
    /// Returns the reason why the connector is replaced.
    fn reason(&self) -> String {
        let keys: Vec<_> = self.keys.iter().map(|key| format!("`{key}`")).collect();
        match &keys[..] {
            [key] => format!("{key} has changed"),
            _ => format!("{} have changed", keys.join(", ")),
        }
    }
}

/// Returns whether a flow continues.
pub(super) fn is_kept(change: Change) -> bool {
    matches!(change, Change::Kept | Change::Changed)
}
