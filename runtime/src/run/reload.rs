//! Reloads: reads the flow files again, and changes the flows that have changed.
//!
//! A reload first plans all flows that were added or replaced, and the successors of connectors, which creates their
//! components. If that fails, nothing has changed. Then the flows drain that were removed or replaced, and their
//! successors start when they have ended. If only connectors, links and pipelines of a flow have changed, the flow
//! continues: connectors are replaced ([`in_place`](super::in_place)), and links change ([`links`](super::links)). If a successor fails on its first attempt to connect, the
//! previous flows are planned and started again, and the connectors are handed back. Flows that have not changed notice
//! nothing.
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
    comparison::Plan,
    confirm::{Confirmation, Expired, Origin},
    in_place::InPlace,
    outcome::{log, run_ends},
    planning::{TRIAL, in_time},
    supervisor::{Member, Supervisor},
};
use crate::{
    engine::{FlowState, Planned, State},
    executor, flow,
    reloads::{
        Action, Change, ConnectorChange, Faulty, FlowChange, NothingToConfirm, Outcome,
        ReloadResult, Reply, Request, Step,
    },
};

/// Time between two looks at files that are watched.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two looks if no files are watched.
const IDLE: Duration = Duration::from_hours(1);
/// Time between two looks at the states of flows for which a reload waits.
pub(super) const STEP: Duration = Duration::from_millis(10);

/// Changes the flows of a run.
pub(super) struct Reloader {
    pub(super) supervisor: Arc<Supervisor>,
    flows: Vec<(Checked, Member)>,
    files: Files,
    /// Last state of [`Files::watch`] for which the files were read, and the state of the last look.
    seen: (u64, u64),
    confirmation: Confirmation<Checked>,
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
        let now = (watch.state)();
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
        self.supervisor.run.reloads().set_confirmation(None);
        let plan = Plan::of(confirmed, &self.flows, &self.supervisor);
        if plan.is_empty() {
            tracing::info!(
                ?within,
                "the reload was not confirmed, and the flows of before run already"
            );
            return;
        }
        tracing::warn!(?within, "the reload was not confirmed, so the flows of before return");
        let mut outcome = self.change_to(plan);
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
    pub(super) fn enter(&self, step: Step, flow: Option<&str>) {
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
        Ok(Plan::of((self.files.read)()?, &self.flows, &self.supervisor))
    }

    /// Returns the running flow called `name`.
    pub(super) fn running(&self, name: &str) -> Option<&(Checked, Member)> {
        self.flows.iter().find(|(it, _)| it.flow.name() == name)
    }

    /// Changes the flows.
    fn apply(&mut self, mut plan: Plan) -> Outcome {
        let (later, first): (Vec<_>, Vec<_>) = plan.starting().partition(|it| it.flow.is_stored());
        let planned = self.plan_all(first).and_then(|planned| {
            let mut in_place = self.successors(&plan)?;
            self.relink(&plan, &mut in_place)?;
            Ok((planned, in_place))
        });
        let (mut planned, mut in_place) = match planned {
            Ok(planned) => planned,
            Err(errors) => return Outcome::of(ReloadResult::Refused, plan.changes, errors),
        };
        let (ending, kept) = std::mem::take(&mut self.flows)
            .into_iter()
            .partition(|(it, _)| plan.ends(it.flow.name()));
        self.flows = kept;
        let ending: Vec<(Checked, Member)> = ending;
        self.end(&ending, None);
        if self.supervisor.run.ends() {
            let Faulty(error) = run_ends();
            return Outcome::of(ReloadResult::Refused, plan.changes, vec![error]);
        }
        let removed = plan.changes.iter().filter(|it| it.change == Change::Removed);
        removed.for_each(|it| self.supervisor.run.remove(&it.flow));
        let later = self.plan_all(later).and_then(|later| {
            self.close(&mut in_place)?;
            Ok(later)
        });
        if later.is_ok() && self.supervisor.run.ends() {
            in_place.release(false);
            let Faulty(error) = run_ends();
            return Outcome::of(ReloadResult::Refused, plan.changes, vec![error]);
        }
        let (started, errors) = match later {
            Ok(later) => {
                planned.extend(later);
                in_place.release(true);
                in_place.start();
                let started = self.start_all(planned);
                let mut errors = self.fail(&started, &in_place);
                if errors.is_empty() {
                    errors = self.exchange(&mut in_place);
                }
                (started, errors)
            }
            Err(errors) => (Vec::new(), errors),
        };
        if errors.is_empty() {
            // The links have changed, so connectors are not handed back, nor on trial while removed ones drain.
            in_place.settle();
            self.complete(&mut in_place, &mut plan);
            drop(in_place);
            for (change, next) in plan.changed() {
                let mut flows = self.flows.iter_mut();
                let running = flows.find(|(it, _)| it.flow.name() == next.flow.name());
                running.into_iter().for_each(|(it, _)| *it = continued(change, next, it));
            }
            self.flows.extend(started);
            self.supervisor.budget.divide();
            return Outcome::of(ReloadResult::Applied, plan.changes, errors);
        }
        self.restore(plan, &started, ending, in_place, errors)
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

    fn plan(&self, checked: &Checked) -> Result<Planned, Faulty> {
        let (supervisor, flow) = (self.supervisor.clone(), checked.clone());
        let name = checked.flow.name();
        self.enter(Step::Creating, Some(name));
        in_time(&self.supervisor, (name, &format!("flow `{name}`")), move |calls, _| {
            supervisor.plan(&flow.flow, &flow.components, calls)
        })
    }

    /// Creates the successors of the connectors that are replaced while their flows run. If one of them cannot be created,
    /// returns the errors of all.
    fn successors(&self, plan: &Plan) -> Result<InPlace, Vec<String>> {
        let (mut in_place, mut errors) = (InPlace::default(), Vec::new());
        for (change, next) in plan.changed() {
            let Some((_, member)) = self.running(&change.flow) else { continue };
            for ConnectorChange { connector, change: of_connector, .. } in &change.connectors {
                if *of_connector != Change::Replaced {
                    continue;
                }
                self.enter(Step::Creating, Some(&change.flow));
                let (supervisor, next) = (self.supervisor.clone(), next.clone());
                let (handle, name) = (member.handle.clone(), connector.clone());
                let of = format!("connector `{connector}` of flow `{}`", change.flow);
                let created = in_time(&self.supervisor, (&change.flow, &of), move |calls, _| {
                    supervisor.successor(&next, &handle, &name, calls)
                });
                match created {
                    Ok(succession) => in_place.add(&change.flow, succession),
                    Err(Faulty(error)) => errors.push(error),
                }
            }
        }
        if errors.is_empty() { Ok(in_place) } else { Err(errors) }
    }

    /// Lets connectors close, and waits until all of them have closed.
    fn close(&self, in_place: &mut InPlace) -> Result<(), Vec<String>> {
        in_place.request();
        self.wait_for(Step::Closing, || in_place.are_closed());
        // If the run ends, the connectors are released so that their flows can drain.
        let is_ending = self.supervisor.run.ends();
        let not_closed = || [in_place.not_closed(TRIAL.as_secs()), in_place.ended()].concat();
        let errors = if is_ending { Vec::new() } else { not_closed() };
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Waits in a step until `is_over` returns `true`, the time limit is over, or the run ends.
    fn wait_for(&self, step: Step, is_over: impl Fn() -> bool) {
        let Supervisor { run, clock, .. } = &*self.supervisor;
        let begun: Instant = clock.now();
        while !is_over() && !run.ends() && clock.elapsed(begun) < TRIAL {
            self.enter(step, None);
            executor::block_on(clock.sleep(STEP));
        }
    }

    fn start_all(&self, planned: Vec<(Checked, Planned)>) -> Vec<(Checked, Member)> {
        let start = |(checked, flow)| (checked, self.supervisor.start(flow, true));
        planned.into_iter().map(start).collect()
    }

    /// Lets flows drain, and waits until they have ended. The engine bounds the time of a drain. If the run ends meanwhile,
    /// lets the connectors `in_place` connect, so that their flows can drain too.
    fn end(&self, flows: &[(Checked, Member)], in_place: Option<&InPlace>) {
        flows.iter().for_each(|(_, member)| member.drain(self.supervisor.deadline));
        for (checked, member) in flows {
            self.enter(Step::Draining, Some(checked.flow.name()));
            while !member.has_ended(LOOK) {
                if self.supervisor.run.ends() {
                    in_place.into_iter().for_each(|it| it.release(false));
                }
            }
        }
    }

    /// Waits until each of the flows has started and each of the connectors has tried to connect, and returns the errors of
    /// those that have failed. Once none fails, the trial is over.
    fn fail(&self, started: &[(Checked, Member)], in_place: &InPlace) -> Vec<String> {
        let Supervisor { run, clock, .. } = &*self.supervisor;
        let begun: Instant = clock.now();
        loop {
            let status: Vec<_> = started.iter().map(|(_, it)| it.handle.status()).collect();
            let failed = status.iter().filter(|it| it.state == FlowState::Failed);
            let mut errors: Vec<String> = failed
                .map(|flow| match &flow.failure {
                    Some(failure) => {
                        let (flow, component) = (&flow.name, &failure.component);
                        format!("error: flow `{flow}` failed: `{component}`: {}", failure.error)
                    }
                    None => format!("error: flow `{}` failed", flow.name),
                })
                .collect();
            errors.extend(in_place.failures());
            if !errors.is_empty() {
                return errors;
            }
            // A connector that has failed is about to fail its flow.
            let awaited = status.iter().find(|flow| {
                flow.connectors.iter().any(|it| !it.is_tried || it.state == State::Failed)
            });
            let is_over = awaited.is_none() && in_place.are_tried();
            if is_over || run.ends() || clock.elapsed(begun) >= TRIAL {
                break;
            }
            self.enter(Step::Connecting, awaited.map(|flow| &*flow.name));
            executor::block_on(clock.sleep(STEP));
        }
        let ends = started.iter().filter(|(_, member)| member.pass()).count();
        if ends > 0 {
            run.drain();
        }
        Vec::new()
    }

    /// Ends the flows of a reload that has failed, starts those again that it had ended, and hands connectors back.
    fn restore(
        &mut self,
        plan: Plan,
        started: &[(Checked, Member)],
        ended: Vec<(Checked, Member)>,
        mut in_place: InPlace,
        mut errors: Vec<String>,
    ) -> Outcome {
        in_place.withdraw();
        errors.extend(in_place.closed());
        in_place.request_back();
        self.wait_for(Step::Closing, || in_place.are_closed());
        self.end(started, Some(&in_place));
        in_place.release(false);
        self.wait_for(Step::Connecting, || in_place.are_tried());
        errors.extend(in_place.not_restored());
        drop(in_place);
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

/// Returns the version `next` of a flow of which only connectors were replaced. Connectors that continue have read the
/// files of their configurations as part of the version `earlier`.
fn continued(change: &FlowChange, next: &Checked, earlier: &Checked) -> Checked {
    let mut flow = flow::Flow::clone(&next.flow);
    for connector in &mut flow.spec.connectors {
        let name = &connector.name.value;
        let is_new = |it: &ConnectorChange| {
            it.connector == *name && matches!(it.change, Change::Replaced | Change::Added)
        };
        let mut connectors = earlier.flow.spec.connectors.iter();
        let running = connectors.find(|it| it.name.value == *name);
        if let Some(running) = running
            && !change.connectors.iter().any(is_new)
        {
            connector.component.config.continue_from(&running.component.config);
        }
    }
    Checked { flow: flow.into(), components: next.components.clone() }
}
