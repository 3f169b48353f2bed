//! The flows of a run: starts them, awaits their ends, and lets flows join and leave meanwhile.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll},
    time::Duration,
};

use async_channel::{Receiver, Sender};
use tremor_pdk::lock;

use super::{Checked, RunHandle, waiting};
use crate::{
    clock::Clock,
    components::{Components, FlowParts},
    engine::{self, FlowHandle, Planned, Processors, Relinking, Report, Succession},
    executor,
    flow::{self, Flow},
    memory::MemoryBudget,
    renewal::{self, Renewal},
    watchdog::{Calls, Watchdog},
};

/// Everything that the flows of a run share.
pub(super) struct Supervisor {
    pub(super) run: RunHandle,
    /// Time limit of a drain.
    pub(super) deadline: Duration,
    pub(super) budget: MemoryBudget,
    pub(super) clock: Clock,
    watchdog: Watchdog,
    processors: Processors,
    joins: Sender<Joining>,
    stage: Mutex<Stage>,
    renewal: Mutex<Option<Renewal>>,
}

/// Whether the run may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The run ends when all flows have ended.
    Runs,
    /// A reload is in progress, which may add flows.
    Reloads,
    Ended,
}

/// Message to the thread that awaits the flows.
pub(super) enum Joining {
    /// A flow was started.
    Flow(Running),
    /// A reload has ended.
    Reloaded,
}

/// A flow that was started, and the future of its report.
pub(super) struct Running {
    report: Pin<Box<dyn Future<Output = Report> + Send>>,
    is_replaced: Arc<AtomicBool>,
    /// Dropped when the flow has ended, which tells its [`Member`].
    _ended: mpsc::Sender<()>,
}

/// A flow that was started, for the thread of reloads.
pub(super) struct Member {
    pub(super) handle: FlowHandle,
    /// `true` while a failure of the flow ends the reload and not the run.
    on_trial: Arc<AtomicBool>,
    /// Set if the flow ends because of a reload.
    is_replaced: Arc<AtomicBool>,
    /// Disconnected once the flow has ended.
    ended: mpsc::Receiver<()>,
}

impl Supervisor {
    pub(super) fn new(
        run: &RunHandle,
        deadline: Duration,
        budget: &MemoryBudget,
        clock: &Clock,
    ) -> (Self, Receiver<Joining>) {
        let (joins, joining) = async_channel::unbounded();
        let supervisor = Self {
            run: run.clone(),
            deadline,
            budget: budget.clone(),
            clock: clock.clone(),
            watchdog: Watchdog::start(clock),
            processors: Processors::default(),
            joins,
            stage: Mutex::new(Stage::Runs),
            renewal: Mutex::default(),
        };
        (supervisor, joining)
    }

    /// Creates the records of the calls into plugins of a flow.
    pub(super) fn calls(&self, flow: &str) -> Arc<Calls> {
        self.watchdog.flow(flow)
    }

    /// Plans a checked flow, which creates its components. Records its calls into plugins in `calls`.
    ///
    /// # Errors
    /// The reason why a component cannot be created.
    pub(super) fn plan(
        &self,
        flow: &Flow,
        components: &Components,
        calls: &Arc<Calls>,
    ) -> Result<Planned, flow::Error> {
        let Self { run, clock, .. } = self;
        let memory = self.budget.flow(flow.name());
        let parts = FlowParts { components, flow, run, calls, memory: &memory, clock };
        engine::Flow::plan(flow, &parts, calls.clone(), &self.processors, memory.clone(), clock)
    }

    /// Creates the successor of a connector of a running flow, as `next` specifies it. `apart` records the calls of a
    /// trial, because a constructor that hangs must not fail the running flow.
    ///
    /// # Errors
    /// The reason why a component cannot be created.
    pub(super) fn successor(
        &self,
        next: &Checked,
        running: &FlowHandle,
        connector: &str,
        apart: &Arc<Calls>,
    ) -> Result<Succession, flow::Error> {
        let [trial, parts] = [apart, running.calls()].map(|calls| self.parts(next, running, calls));
        running.succession(&next.flow, connector, &trial, &parts)
    }

    /// Returns the parts from which components of `next` are created for the running version of the flow.
    fn parts<'p>(
        &'p self,
        Checked { flow, components }: &'p Checked,
        running: &'p FlowHandle,
        calls: &'p Arc<Calls>,
    ) -> FlowParts<'p> {
        let Self { run, clock, .. } = self;
        FlowParts { components, flow, run, calls, memory: running.memory(), clock }
    }

    /// Returns the reason why a flow, of which `before` runs, cannot become `next` without being replaced, if there is one.
    pub(super) fn link_obstacle(
        &self,
        next: &Checked,
        before: &Checked,
        running: &FlowHandle,
    ) -> Option<String> {
        let parts = self.parts(next, running, running.calls());
        running.link_obstacle(&next.flow, &before.flow, &parts)
    }

    /// Plans the change of the links of a flow, of which `before` runs, to those of `next`. `apart` records the calls of a
    /// trial.
    ///
    /// # Errors
    /// The reason why a component cannot be created.
    pub(super) fn relinking(
        &self,
        (next, before): (&Checked, &Checked),
        running: &FlowHandle,
        apart: &Arc<Calls>,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Relinking, flow::Error> {
        let [trial, parts] = [apart, running.calls()].map(|calls| self.parts(next, running, calls));
        running.relinking((&next.flow, &before.flow), (&trial, &parts), is_awaited)
    }

    /// Starts the flows that the run begins with. If one of them cannot be planned, none is started.
    ///
    /// # Errors
    /// Errors of [`Supervisor::plan`].
    pub(super) fn start_all<'f>(
        &self,
        flows: impl Iterator<Item = (&'f Flow, &'f Components)>,
    ) -> Result<Vec<Member>, flow::Error> {
        let planned: Result<Vec<_>, _> = flows
            .map(|(it, components)| self.plan(it, components, &self.calls(it.name())))
            .collect();
        let planned = planned?;
        self.budget.divide();
        let members = planned.into_iter().map(|flow| self.start(flow, false)).collect();
        self.run.begin();
        Ok(members)
    }

    /// Starts a flow, which replaces the one with the same name. With `on_trial`, a failure does not end the run.
    pub(super) fn start(&self, flow: Planned, on_trial: bool) -> Member {
        let flow = flow.start();
        let handle = flow.handle();
        self.run.add(handle.clone());
        let (on_trial, is_replaced) =
            (Arc::new(AtomicBool::new(on_trial)), Arc::<AtomicBool>::default());
        let (run, awaited, trial, deadline) =
            (self.run.clone(), handle.clone(), on_trial.clone(), self.deadline);
        let report = Box::pin(async move {
            let end = || {
                if !trial.load(Ordering::SeqCst) {
                    run.drain();
                }
            };
            awaited.or_end_run(flow.ended(deadline), end).await
        });
        let (sender, ended) = mpsc::channel();
        let running = Running { report, is_replaced: is_replaced.clone(), _ended: sender };
        // The receiver exists as long as the thread awaits flows. After that, no reload begins.
        _ = self.joins.try_send(Joining::Flow(running));
        Member { handle, on_trial, is_replaced, ended }
    }

    /// Restarts connectors of `flows` when files change to which their configurations refer.
    pub(super) fn watch_files<'f>(&self, flows: impl Iterator<Item = &'f Flow>) {
        *lock(&self.renewal) = renewal::watch(flows, &self.run, &self.clock);
    }

    /// Keeps the run from ending until [`Supervisor::end_reload`] is called. Returns `false` if the run has ended or
    /// is ending.
    pub(super) fn begin_reload(&self) -> bool {
        let mut stage = lock(&self.stage);
        let begins = *stage == Stage::Runs && !self.run.ends();
        if begins {
            *stage = Stage::Reloads;
        }
        begins
    }

    /// Lets the run end when all flows have ended.
    pub(super) fn end_reload(&self) {
        *lock(&self.stage) = Stage::Runs;
        _ = self.joins.try_send(Joining::Reloaded);
    }

    /// Awaits the ends of all flows, and returns their reports. Those of flows that a reload has replaced or removed
    /// are passed to `replaced`.
    ///
    /// The calling thread awaits the flows, because plugins may block all threads of the executor.
    pub(super) fn until_end(
        &self,
        joining: &Receiver<Joining>,
        mut replaced: impl FnMut(Report),
    ) -> Vec<Report> {
        let mut running = Vec::new();
        let mut reports = Vec::<(Report, Arc<AtomicBool>)>::new();
        let mut joins = Box::pin(joining.recv());
        let all = poll_fn(|context| {
            while let Poll::Ready(joined) = joins.as_mut().poll(context) {
                joins = Box::pin(joining.recv());
                match joined {
                    Ok(Joining::Flow(flow)) => running.push(flow),
                    // A flow that had ended by itself, on trial for example, was replaced or removed since.
                    Ok(Joining::Reloaded) => reports
                        .extract_if(.., |(_, is_replaced)| is_replaced.load(Ordering::SeqCst))
                        .for_each(|(report, _)| replaced(report)),
                    // The supervisor itself has a sender.
                    Err(_) => break,
                }
            }
            running.retain_mut(|flow: &mut Running| match flow.poll(context) {
                Poll::Pending => true,
                Poll::Ready(report) => {
                    // A flow that had ended by itself may have a successor, so that the list does not grow for ever.
                    let earlier = reports.iter().position(|(it, _)| it.flow == report.flow);
                    earlier.into_iter().for_each(|at| replaced(reports.remove(at).0));
                    if flow.is_replaced.load(Ordering::SeqCst) {
                        replaced(report);
                    } else {
                        reports.push((report, flow.is_replaced.clone()));
                    }
                    false
                }
            });
            let mut stage = lock(&self.stage);
            if running.is_empty() && joining.is_empty() && *stage == Stage::Runs {
                *stage = Stage::Ended;
                return Poll::Ready(());
            }
            Poll::Pending
        });
        let beside = engine::waiting::report(|| self.run.handles(), &self.clock);
        let reloads = waiting::report(self.run.reloads(), &self.clock);
        executor::block_on(executor::first(all, executor::first(beside, reloads)));
        reports.into_iter().map(|(report, _)| report).collect()
    }
}

impl Running {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Report> {
        self.report.as_mut().poll(context)
    }
}

impl Member {
    /// Lets the flow drain because of a reload, within the time `deadline`. A failure of the flow no longer ends the
    /// run.
    pub(super) fn drain(&self, deadline: Duration) {
        self.on_trial.store(true, Ordering::SeqCst);
        self.is_replaced.store(true, Ordering::SeqCst);
        self.handle.drain_within(deadline);
    }

    /// Waits until the flow has ended, at most for the time `within`. Returns whether it has ended.
    pub(super) fn has_ended(&self, within: Duration) -> bool {
        self.ended.recv_timeout(within) == Err(mpsc::RecvTimeoutError::Disconnected)
    }

    /// Ends the trial: from now on, a failure of the flow may end the run. Returns whether such a failure has happened
    /// already.
    pub(super) fn pass(&self) -> bool {
        self.on_trial.store(false, Ordering::SeqCst);
        self.handle.ends_run()
    }
}
