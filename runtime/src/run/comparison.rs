//! Comparison of the flows of files with those that run.

use super::{Checked, supervisor::Member};
use crate::{
    flow::{ChangedConnector, Difference},
    reloads::{Change, ConnectorChange, FlowChange},
};

/// Flows of a reload, and what happens to each of them.
pub(super) struct Plan {
    pub(super) changes: Vec<FlowChange>,
    pub(super) next: Vec<Checked>,
}

impl Plan {
    /// Compares the flows `next` with those that run.
    pub(super) fn of(next: Vec<Checked>, running: &[(Checked, Member)]) -> Self {
        let mut changes: Vec<_> = next.iter().map(|flow| compare(flow, running)).collect();
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

    /// Returns the flows of which only connectors change.
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
fn compare(next: &Checked, running: &[(Checked, Member)]) -> FlowChange {
    let name = next.flow.name();
    let found = running.iter().find(|(it, _)| it.flow.name() == name);
    let Some((running, member)) = found else {
        return FlowChange::new(name, Change::Added, None);
    };
    let replaced = |reason| FlowChange::new(name, Change::Replaced, Some(reason));
    let changed = match next.flow.difference(&running.flow) {
        Difference::Flow(reason) => return replaced(reason),
        Difference::Connectors(changed) => changed,
        Difference::Nothing => Vec::new(),
    };
    if let Some(path) = next.components.changed_library(&next.flow, &running.components) {
        return replaced(format!("the plugin {} has changed", path.display()));
    }
    if changed.is_empty() {
        return FlowChange::new(name, Change::Kept, None);
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
    let connectors = next.flow.spec.connectors.iter().map(|connector| {
        let connector = connector.name.value.clone();
        let is_replaced =
            |it: &&ChangedConnector| it.name == connector && member.handle.runs(&it.name);
        let reason = changed.iter().find(is_replaced).map(ChangedConnector::reason);
        let change = if reason.is_some() { Change::Replaced } else { Change::Kept };
        ConnectorChange { connector, change, reason }
    });
    let connectors = connectors.collect();
    FlowChange { connectors, ..FlowChange::new(name, Change::Changed, None) }
}

impl FlowChange {
    fn new(flow: &str, change: Change, reason: Option<String>) -> Self {
        Self { flow: flow.to_owned(), change, reason, connectors: Vec::new() }
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

/// Returns whether a flow or a connector continues.
pub(super) fn is_kept(change: Change) -> bool {
    matches!(change, Change::Kept | Change::Changed)
}
