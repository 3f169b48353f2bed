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
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    Checked, Files,
    confirm::{Confirmation, Expired, Origin},
    outcome::{log, run_ends},
    supervisor::{Member, Supervisor},
};
use crate::{
    engine::{FlowState, Planned, State},
    executor,
    reloads::{
        Action, Change, Faulty, FlowChange, NothingToConfirm, Outcome, ReloadResult, Reply,
        Request, Step,
    },
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
    /// Last value of [`Files::watch`] for which the files were read, and the value of the last look.
    seen: (u64, u64),
    confirmation: Confirmation<Checked>,
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
        mut files: Files,
    ) {
        let reloads = supervisor.run.reloads().clone();
        let value = files.watch.as_mut().map_or(0, |watch| watch());
        let flows = flows.iter().cloned().zip(members).collect();
        let clock = supervisor.clock.clone();
        let (seen, confirmation) = ((value, value), Confirmation::new());
        let mut reloader = Self { supervisor, flows, files, seen, confirmation };
        reloads.serve();
        let look = if reloader.files.watch.is_some() { LOOK } else { IDLE };
        let serves = {
            let reloads = reloads.clone();
            move || {
                while let Some(requests) = reloads.next(reloader.wait(look), &clock) {
                    reloader.serve(&requests);
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("reload".to_owned()).spawn(serves) {
            reloads.end();
            tracing::warn!(%error, "cannot start the thread of reloads, so the flows cannot be reloaded");
        }
    }

    /// Returns the time until the reloader has something to do without a request, at most `look`.
    fn wait(&self, look: Duration) -> Duration {
        let now = self.supervisor.clock.now();
        let until = self.confirmation.until().map(|until| until.saturating_duration_since(now));
        until.unwrap_or(look).min(look)
    }

    /// Serves requests that wait, in their order. Of requests to reload that wait one after the other, the last one
    /// counts.
    fn serve(&mut self, requests: &[Request]) {
        let mut has_read = false;
        for requests in requests.chunk_by(Request::has_kind_of) {
            let Some(last) = requests.last() else { continue };
            let reply = match last.action {
                Action::Plan => Ok(self.read().map_or_else(Outcome::refused, |plan| {
                    Outcome::of(ReloadResult::Planned, plan.changes, Vec::new())
                })),
                Action::Reload { confirm } => {
                    has_read = true;
                    self.have_files_changed(true);
                    Ok(self.reload(Origin::Request { confirm }))
                }
                Action::Keep => self.keep(),
            };
            requests.iter().for_each(|request| request.answer(&reply));
        }
        if !has_read && self.have_files_changed(false) {
            self.reload(Origin::Watch);
        }
        let now = self.supervisor.clock.now();
        if let Some(expired) = self.confirmation.expired(now) {
            self.return_to(expired);
        }
    }

    /// Confirms the flows that run.
    fn keep(&mut self) -> Reply {
        if !self.confirmation.keep() {
            return Err(NothingToConfirm);
        }
        self.supervisor.run.reloads().set_confirmation(None);
        tracing::info!("the flows were confirmed");
        Ok(Outcome::of(ReloadResult::Confirmed, Vec::new(), Vec::new()))
    }

    /// Returns whether watched files have changed since they were last read, and not again since the last look, so that
    /// files are not read while somebody writes them. With `is_read`, the files are read now in any case.
    fn have_files_changed(&mut self, is_read: bool) -> bool {
        let Some(watch) = &mut self.files.watch else { return false };
        let (read, before) = self.seen;
        let now = watch();
        let is_due = is_read || (now == before && now != read);
        self.seen = (if is_due { now } else { read }, now);
        is_due
    }

    /// Reads the files, and changes the flows.
    fn reload(&mut self, origin: Origin) -> Outcome {
        self.enter(Step::Reading, None);
        let before = self.flows.iter().map(|(checked, _)| checked.clone()).collect();
        let mut outcome = self.read().map_or_else(Outcome::refused, |plan| self.change_to(plan));
        let now = self.supervisor.clock.now();
        if !outcome.result.is_failure() {
            let before = (outcome.result == ReloadResult::Applied).then_some(before);
            self.confirmation.reloaded(origin, before, now);
        }
        outcome.confirm_seconds = self.confirmation.seconds(now);
        self.record(&outcome);
        outcome
    }

    /// Changes the flows back to the last confirmed configuration, by the same steps as a reload.
    fn return_to(&mut self, Expired { within, confirmed }: Expired<Checked>) {
        if self.supervisor.run.ends() {
            return;
        }
        tracing::warn!(?within, "the reload was not confirmed, so the flows of before return");
        let mut outcome = self.change_to(self.compare(confirmed));
        if outcome.result.is_failure() {
            let error =
                "error: the reload was not confirmed, and the flows of before cannot return";
            outcome.errors.insert(0, error.to_owned());
        } else {
            outcome.result = ReloadResult::Returned;
        }
        self.record(&outcome);
    }

    /// Records and logs the outcome of a reload.
    fn record(&self, outcome: &Outcome) {
        let Supervisor { run, clock, .. } = &*self.supervisor;
        run.reloads().set_confirmation(self.confirmation.until());
        run.reloads().record(outcome, clock.now());
        log(outcome);
    }

    /// Records the step in which the reload is.
    fn enter(&self, step: Step, flow: Option<&str>) {
        let Supervisor { run, clock, .. } = &*self.supervisor;
        run.reloads().enter(step, flow, clock.now());
    }

    fn change_to(&mut self, plan: Plan) -> Outcome {
        if plan.is_empty() {
            return Outcome::of(ReloadResult::Unchanged, plan.changes, Vec::new());
        }
        if !self.supervisor.begin_reload() {
            let Faulty(error) = run_ends();
            return Outcome::of(ReloadResult::Interrupted, plan.changes, vec![error]);
        }
        let mut outcome = self.apply(plan);
        if outcome.result.is_failure() && self.supervisor.run.ends() {
            outcome.result = ReloadResult::Interrupted;
        }
        self.supervisor.watch_files(self.flows.iter().map(|(checked, _)| &*checked.flow));
        self.supervisor.end_reload();
        outcome
    }

    /// Reads the files and compares them with what runs.
    fn read(&mut self) -> Result<Plan, Faulty> {
        let next = (self.files.read)()?;
        Ok(self.compare(next))
    }

    /// Compares flows with those that run.
    fn compare(&self, next: Vec<Checked>) -> Plan {
        let mut changes: Vec<_> = next.iter().map(|flow| self.change(flow)).collect();
        for (running, _) in &self.flows {
            let name = running.flow.name();
            if !next.iter().any(|it| it.flow.name() == name) {
                changes.push(FlowChange::new(name, Change::Removed, None));
            }
        }
        Plan { changes, next }
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
            let Faulty(error) = run_ends();
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
        let Supervisor { run, clock, .. } = &*self.supervisor;
        let name = checked.flow.name();
        if run.ends() {
            return Err(run_ends());
        }
        self.enter(Step::Creating, Some(name));
        let (sender, planned) = async_channel::bounded(1);
        let calls = self.supervisor.calls(name);
        let (supervisor, flow, records) = (self.supervisor.clone(), checked.clone(), calls.clone());
        let plan = move || {
            let planned = supervisor.plan(&flow.flow, &flow.components, &records);
            // The receiver is gone after the time limit.
            _ = sender
                .try_send(planned.map_err(|error| Faulty(error.to_string().trim_end().to_owned())));
        };
        let thread = thread::Builder::new().name("plan".to_owned()).spawn(plan);
        thread.map_err(|error| Faulty(format!("error: cannot start a thread: {error}")))?;
        let failed = |how: &str| {
            Err(Faulty(format!("error: the components of flow `{name}` were not created{how}")))
        };
        let planned = async {
            planned.recv().await.unwrap_or_else(|_| failed(", because the thread has panicked"))
        };
        let late = async {
            clock.sleep(TRIAL).await;
            let blocked = calls.in_progress().join(", ");
            failed(&format!(
                " within {} s: these calls have not returned: {blocked}",
                TRIAL.as_secs()
            ))
        };
        let ends = async {
            run.reloads().interrupted().await;
            Err(run_ends())
        };
        executor::block_on(executor::first(planned, executor::first(late, ends)))
    }

    fn start_all(&self, planned: Vec<(Checked, Planned)>) -> Vec<(Checked, Member)> {
        let start = |(checked, flow)| (checked, self.supervisor.start(flow, true));
        planned.into_iter().map(start).collect()
    }

    /// Lets flows drain, and waits until they have ended. The engine bounds the time of a drain.
    fn end(&self, flows: &[(Checked, Member)]) {
        flows.iter().for_each(|(_, member)| member.drain(self.supervisor.deadline));
        for (checked, member) in flows {
            self.enter(Step::Draining, Some(checked.flow.name()));
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
            let awaited = status.iter().find(|flow| {
                flow.connectors.iter().any(|it| !it.is_tried || it.state == State::Failed)
            });
            let Some(flow) = awaited else { break };
            if run.ends() || clock.elapsed(begun) >= TRIAL {
                break;
            }
            self.enter(Step::Connecting, Some(&flow.name));
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
            if self.supervisor.run.ends() {
                break;
            }
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
