//! The change of the links of flows that continue.

use std::path::Path;

use super::{
    Checked,
    comparison::Plan,
    in_place::InPlace,
    planning::{TRIAL, in_time},
    reload::{Reloader, STEP},
    supervisor::Supervisor,
};
use crate::{
    engine::{self, Remainder, Removal},
    executor,
    flow::Flow,
    reloads::{Faulty, FlowChange, Step},
};

impl Reloader {
    /// Plans the changes of links while the flows run, which creates the components that join. If one of them cannot be
    /// created, returns the errors of all.
    pub(super) fn relink(&self, plan: &Plan, in_place: &mut InPlace) -> Result<(), Vec<String>> {
        let mut errors = Vec::new();
        for (change, next) in plan.changed().filter(|(change, _)| change.is_relinked()) {
            let Some((before, member)) = self.running(&change.flow) else { continue };
            self.enter(Step::Creating, Some(&change.flow));
            let (supervisor, next, before) =
                (self.supervisor.clone(), next.clone(), before.clone());
            let handle = member.handle.clone();
            let of = format!("flow `{}`", change.flow);
            let created =
                in_time(&self.supervisor, (&change.flow, &of), move |calls, is_awaited| {
                    supervisor.relinking((&next, &before), &handle, calls, is_awaited)
                });
            match created {
                Ok(relinking) => in_place.links.push((change.flow.clone(), relinking)),
                Err(Faulty(error)) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Exchanges the links of all flows. Returns an error if batches do not leave the previous links in time, so that
    /// nothing has changed.
    pub(super) fn exchange(&self, in_place: &mut InPlace) -> Vec<String> {
        if in_place.links.is_empty() {
            return Vec::new();
        }
        let Supervisor { run, clock, .. } = &*self.supervisor;
        let exchanges = in_place.links.iter_mut().flat_map(|(_, it)| it.take_exchanges());
        let exchanged = async {
            engine::exchange(exchanges.collect()).await;
            true
        };
        let interrupted = async {
            executor::first(clock.sleep(TRIAL), run.reloads().interrupted()).await;
            false
        };
        if executor::block_on(executor::first(exchanged, interrupted)) {
            return Vec::new();
        }
        let flows: Vec<_> = in_place.links.iter().map(|(flow, _)| format!("`{flow}`")).collect();
        let (flows, seconds) = (flows.join(", "), TRIAL.as_secs());
        vec![format!(
            "error: the links of {flows} cannot change: earlier batches did not leave the operators and full queues within \
             {seconds} s"
        )]
    }

    /// Completes the changes of links, and waits until the connectors that leave have delivered or given up what they have.
    /// Records in `plan` what they have left.
    pub(super) fn complete(&self, in_place: &mut InPlace, plan: &mut Plan) {
        let complete = |(flow, links): (String, engine::Relinking)| (flow, links.complete());
        let mut removals: Vec<(String, Removal)> = in_place.links.drain(..).map(complete).collect();
        let Supervisor { run, clock, deadline, .. } = &*self.supervisor;
        let begun = clock.now();
        while !run.ends() {
            let mut waits = None;
            for (flow, removal) in &mut removals {
                if !removal.advance(clock.elapsed(begun), *deadline) {
                    waits = waits.or(Some(&**flow));
                }
            }
            let Some(flow) = waits else { break };
            self.enter(Step::Draining, Some(flow));
            executor::block_on(clock.sleep(STEP));
        }
        if run.ends() {
            return;
        }
        for (flow, removal) in removals {
            let before = self.running(&flow).map(|(checked, _)| checked.clone());
            let change = plan.changes.iter_mut().find(|it| it.flow == flow);
            if let (Some(before), Some(change)) = (before, change) {
                record(removal.finish(), &before, change);
            }
        }
    }
}

/// Records what removed sinks have left.
fn record(remainders: Vec<Remainder>, before: &Checked, change: &mut FlowChange) {
    for Remainder { sink, lost, stored, has_ended } in remainders {
        let mut left = Vec::new();
        if lost > 0 {
            left.push(format!(
                "{lost} events were lost, because they could not be delivered in time"
            ));
        }
        if let Some(stored) = stored {
            let folder = folder(&before.flow, &sink);
            left.push(format!("{stored} events stay on disk in {folder}"));
        }
        if !has_ended {
            left.push("it has not ended yet, because calls have not returned".to_owned());
        }
        let mut connectors = change.connectors.iter_mut();
        if let Some(connector) = connectors.find(|it| it.connector == sink)
            && !left.is_empty()
        {
            connector.reason = Some(left.join("; "));
        }
    }
}

/// Returns the folder of the queue on disk of a sink.
fn folder(flow: &Flow, sink: &str) -> String {
    let mut connectors = flow.spec.connectors.iter();
    let disk = connectors.find(|it| it.name.value == sink).and_then(|it| it.queue.disk.as_ref());
    let path = flow.folder().join(disk.map_or(Path::new(""), |it| Path::new(&it.path.value)));
    std::path::absolute(&path).unwrap_or(path).display().to_string()
}
