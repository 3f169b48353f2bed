//! Reloads: reads the flow files again, and changes the flows that have changed.
//!
//! A reload first plans all flows that were added or changed, which creates their components. If that fails, nothing
//! has changed. Then the flows drain that were removed or changed, and their successors start when they have ended. If a
//! successor fails on its first attempt to connect, the previous flows are planned and started again. Flows that have
//! not changed notice nothing.
//!
//! Planning a flow opens its queues on disk, which its predecessor may use. Flows with such queues are therefore planned
//! when the flows that end have ended.
//!
//! Reloads have a thread of their own, because the constructors of plugins may block it.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{
    Checked, Files,
    supervisor::{Member, Supervisor},
};
use crate::{
    engine::{FlowState, Planned, State},
    executor,
    reloads::{Change, Faulty, FlowChange, Outcome, ReloadResult, Request},
};

/// Time between two looks at files that are watched.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two looks if no files are watched.
const IDLE: Duration = Duration::from_hours(1);
/// Maximum time in which a successor is on trial. A connector that has not tried to connect by then counts as started.
const TRIAL: Duration = Duration::from_secs(30);
/// Time between two looks at the states of flows for which a reload waits.
const STEP: Duration = Duration::from_millis(10);

/// Changes the flows of a run.
pub(super) struct Reloader {
    supervisor: Arc<Supervisor>,
    flows: Vec<(Checked, Member)>,
    files: Files,
    /// Last state of [`Files::watch`] for which the files were read, and the state of the last look.
    seen: (u64, u64),
}

/// Flows of a reload, and what happens to each of them.
struct Plan {
    changes: Vec<FlowChange>,
    next: Vec<Checked>,
}

impl Plan {
    /// Returns the flows that have to start.
    fn starting(&self) -> impl Iterator<Item = &Checked> {
        let changes = self.changes.iter().zip(&self.next);
        changes.filter(|(it, _)| it.change != Change::Kept).map(|(_, flow)| flow)
    }

    fn is_empty(&self) -> bool {
        self.changes.iter().all(|it| it.change == Change::Kept)
    }

    /// Returns whether the running flow with this name has to end.
    fn ends(&self, name: &str) -> bool {
        let ends = |it: &&FlowChange| matches!(it.change, Change::Replaced | Change::Removed);
        self.changes.iter().filter(ends).any(|it| it.flow == name)
    }
}

impl Reloader {
    /// Starts the thread of reloads. It ends with the run.
    pub(super) fn start(
        supervisor: Arc<Supervisor>,
        flows: &[Checked],
        members: Vec<Member>,
        files: Files,
    ) {
        let reloads = supervisor.run.reloads().clone();
        let value = files.watch.as_ref().map_or(0, |watch| watch.since);
        let flows = flows.iter().cloned().zip(members).collect();
        let mut reloader = Self { supervisor, flows, files, seen: (value, value) };
        reloads.serve();
        let look = if reloader.files.watch.is_some() { LOOK } else { IDLE };
        let serves = {
            let reloads = reloads.clone();
            move || {
                while let Some(requests) = reloads.next(look) {
                    reloader.serve(&requests);
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("reload".to_owned()).spawn(serves) {
            reloads.end();
            tracing::warn!(%error, "cannot start the thread of reloads, so the flows cannot be reloaded");
        }
    }

    fn serve(&mut self, requests: &[Request]) {
        let (planned, wanted): (Vec<_>, Vec<_>) = requests.iter().partition(|it| it.dry_run);
        if !planned.is_empty() {
            let outcome = self.read().map_or_else(Outcome::refused, |plan| Outcome {
                result: ReloadResult::Planned,
                flows: plan.changes,
                errors: Vec::new(),
            });
            planned.iter().for_each(|request| request.answer(&outcome));
        }
        let is_wanted = !wanted.is_empty();
        if self.have_files_changed(is_wanted) || is_wanted {
            let outcome = self.reload();
            self.supervisor.run.reloads().record(&outcome);
            log(&outcome);
            wanted.iter().for_each(|request| request.answer(&outcome));
        }
    }

    /// Returns whether watched files have changed since they were last read, and not again since the last look, so that
    /// files are not read while somebody writes them. With `is_read`, the files are read now in any case.
    fn have_files_changed(&mut self, is_read: bool) -> bool {
        let Some(watch) = &mut self.files.watch else { return false };
        let (read, before) = self.seen;
        let now = (watch.state)();
        let is_due = is_read || (now == before && now != read);
        self.seen = (if is_due { now } else { read }, now);
        is_due
    }

    fn reload(&mut self) -> Outcome {
        let plan = match self.read() {
            Ok(plan) => plan,
            Err(error) => return Outcome::refused(error),
        };
        if plan.is_empty() {
            return Outcome::of(ReloadResult::Unchanged, plan.changes, Vec::new());
        }
        if !self.supervisor.begin_reload() {
            let error = "the run ends, so nothing is reloaded".to_owned();
            return Outcome::refused(Faulty(error));
        }
        let outcome = self.apply(plan);
        self.supervisor.watch_files(self.flows.iter().map(|(checked, _)| &*checked.flow));
        self.supervisor.end_reload();
        outcome
    }

    /// Reads the files and compares them with what runs.
    fn read(&mut self) -> Result<Plan, Faulty> {
        let next = (self.files.read)()?;
        let mut changes: Vec<_> = next.iter().map(|flow| self.change(flow)).collect();
        for (running, _) in &self.flows {
            let name = running.flow.name();
            if !next.iter().any(|it| it.flow.name() == name) {
                changes.push(FlowChange::new(name, Change::Removed, None));
            }
        }
        Ok(Plan { changes, next })
    }

    /// Compares a flow with the running one of the same name.
    fn change(&self, next: &Checked) -> FlowChange {
        let name = next.flow.name();
        let Some((running, _)) = self.flows.iter().find(|(it, _)| it.flow.name() == name) else {
            return FlowChange::new(name, Change::Added, None);
        };
        if !next.flow.is_same_as(&running.flow) {
            let reason = "its file has changed, or a value to which the file refers".to_owned();
            return FlowChange::new(name, Change::Replaced, Some(reason));
        }
        match next.components.changed_library(&next.flow, &running.components) {
            Some(path) => {
                let reason = format!("the plugin {} has changed", path.display());
                FlowChange::new(name, Change::Replaced, Some(reason))
            }
            None => FlowChange::new(name, Change::Kept, None),
        }
    }

    /// Changes the flows.
    fn apply(&mut self, plan: Plan) -> Outcome {
        let (later, first): (Vec<_>, Vec<_>) = plan.starting().partition(|it| it.flow.is_stored());
        let mut planned = match self.plan_all(first) {
            Ok(planned) => planned,
            Err(errors) => return Outcome::of(ReloadResult::Refused, plan.changes, errors),
        };
        let (ending, kept) = std::mem::take(&mut self.flows)
            .into_iter()
            .partition(|(it, _)| plan.ends(it.flow.name()));
        self.flows = kept;
        let ending: Vec<(Checked, Member)> = ending;
        self.end(&ending);
        if self.supervisor.run.ends() {
            let error = "the run was ended during the reload".to_owned();
            return Outcome::of(ReloadResult::Refused, plan.changes, vec![error]);
        }
        let removed = plan.changes.iter().filter(|it| it.change == Change::Removed);
        removed.for_each(|it| self.supervisor.run.remove(&it.flow));
        let (started, errors) = match self.plan_all(later) {
            Ok(later) => {
                planned.extend(later);
                let started = self.start_all(planned);
                let errors = self.fail(&started);
                (started, errors)
            }
            Err(errors) => (Vec::new(), errors),
        };
        if errors.is_empty() {
            self.flows.extend(started);
            self.supervisor.budget.divide();
            return Outcome::of(ReloadResult::Applied, plan.changes, errors);
        }
        self.restore(plan, &started, ending, errors)
    }

    /// Plans flows. If one of them cannot be planned, returns the errors of all.
    fn plan_all<'f>(
        &self,
        flows: impl IntoIterator<Item = &'f Checked>,
    ) -> Result<Vec<(Checked, Planned)>, Vec<String>> {
        let (mut planned, mut errors) = (Vec::new(), Vec::new());
        for checked in flows {
            match self.plan(checked) {
                Ok(flow) => planned.push((checked.clone(), flow)),
                Err(Faulty(error)) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        self.supervisor.budget.divide();
        Ok(planned)
    }

    /// Plans a flow on a thread of its own, because a constructor may not return.
    fn plan(&self, checked: &Checked) -> Result<Planned, Faulty> {
        let (sender, planned) = mpsc::sync_channel(1);
        let (supervisor, flow) = (self.supervisor.clone(), checked.clone());
        let plan = move || {
            let planned = supervisor.plan(&flow.flow, &flow.components);
            // The receiver is gone after the time limit.
            _ = sender
                .send(planned.map_err(|error| Faulty(error.to_string().trim_end().to_owned())));
        };
        let name = checked.flow.name();
        let thread = thread::Builder::new().name("plan".to_owned()).spawn(plan);
        thread.map_err(|error| Faulty(format!("error: cannot start a thread: {error}")))?;
        planned.recv_timeout(TRIAL).unwrap_or_else(|_| {
            let seconds = TRIAL.as_secs();
            Err(Faulty(format!(
                "error: the components of flow `{name}` were not created within {seconds} s"
            )))
        })
    }

    fn start_all(&self, planned: Vec<(Checked, Planned)>) -> Vec<(Checked, Member)> {
        let start = |(checked, flow)| (checked, self.supervisor.start(flow, true));
        planned.into_iter().map(start).collect()
    }

    /// Lets flows drain, and waits until they have ended. The engine bounds the time of a drain.
    fn end(&self, flows: &[(Checked, Member)]) {
        flows.iter().for_each(|(_, member)| member.drain(self.supervisor.deadline));
        for (_, member) in flows {
            while !member.has_ended(LOOK) {}
        }
    }

    /// Waits until each of the flows has started, and returns the errors of those that have failed. Once no flow fails,
    /// the trial is over.
    fn fail(&self, started: &[(Checked, Member)]) -> Vec<String> {
        let Supervisor { run, clock, .. } = &*self.supervisor;
        let begun: Instant = clock.now();
        loop {
            let status: Vec<_> = started.iter().map(|(_, it)| it.handle.status()).collect();
            let failed = status.iter().filter(|it| it.state == FlowState::Failed);
            let errors: Vec<String> = failed
                .map(|flow| match &flow.failure {
                    Some(failure) => {
                        let (flow, component) = (&flow.name, &failure.component);
                        format!("error: flow `{flow}` failed: `{component}`: {}", failure.error)
                    }
                    None => format!("error: flow `{}` failed", flow.name),
                })
                .collect();
            if !errors.is_empty() {
                return errors;
            }
            // A connector that has failed is about to fail its flow.
            let mut connectors = status.iter().flat_map(|it| &it.connectors);
            let is_tried = connectors.all(|it| it.is_tried && it.state != State::Failed);
            if is_tried || run.ends() || clock.elapsed(begun) >= TRIAL {
                break;
            }
            executor::block_on(clock.sleep(STEP));
        }
        let ends = started.iter().filter(|(_, member)| member.pass()).count();
        if ends > 0 {
            run.drain();
        }
        Vec::new()
    }

    /// Ends the flows of a reload that has failed, and starts those again that it had ended.
    fn restore(
        &mut self,
        plan: Plan,
        started: &[(Checked, Member)],
        ended: Vec<(Checked, Member)>,
        mut errors: Vec<String>,
    ) -> Outcome {
        self.end(started);
        for (checked, _) in started {
            self.supervisor.run.remove(checked.flow.name());
        }
        for (checked, _) in ended {
            match self.plan_all(std::iter::once(&checked)) {
                Ok(planned) => {
                    let restored = self.start_all(planned);
                    // The flow ran before. If it fails now, that has the same effect as before the reload.
                    if restored.iter().filter(|(_, member)| member.pass()).count() > 0 {
                        self.supervisor.run.drain();
                    }
                    self.flows.extend(restored);
                }
                Err(more) => errors.extend(more.into_iter().map(|error| {
                    let name = checked.flow.name();
                    format!("{error}\n  note: the flow `{name}` of before cannot be started again")
                })),
            }
        }
        self.supervisor.budget.divide();
        Outcome::of(ReloadResult::Restored, plan.changes, errors)
    }
}

impl Outcome {
    fn of(result: ReloadResult, flows: Vec<FlowChange>, errors: Vec<String>) -> Self {
        Self { result, flows, errors }
    }

    /// Creates the outcome if the files cannot be used.
    fn refused(Faulty(error): Faulty) -> Self {
        Self::of(ReloadResult::Refused, Vec::new(), vec![error])
    }
}

impl FlowChange {
    fn new(flow: &str, change: Change, reason: Option<String>) -> Self {
        Self { flow: flow.to_owned(), change, reason }
    }
}

fn log(outcome: &Outcome) {
    let Outcome { result, flows, errors } = outcome;
    let changed: Vec<_> = flows.iter().filter(|it| it.change != Change::Kept).collect();
    let kept = flows.len() - changed.len();
    let changes = changed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match result {
        ReloadResult::Refused => {
            tracing::error!("the reload was refused, nothing has changed: {}", errors.join("\n"));
        }
        ReloadResult::Restored => {
            tracing::error!(
                changes,
                "the reload has failed, and the flows of before were started again: {}",
                errors.join("\n")
            );
        }
        result => tracing::info!(changes, kept, "reload: {}", result.as_str()),
    }
}
