//! Tests of reloads of a run in this process, whose clock the test controls.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tremor_runtime::{
    clock::Clock,
    components::Components,
    engine::FlowState,
    flow,
    memory::MemoryBudget,
    plugin::{Describer, Policy, SearchPath},
    reloads::{Action, Outcome, ReloadResult, Reply, Step},
    run::{Checked, Faulty, Files, RunHandle, Watch, run_with_reloads},
};

use crate::tremor::{Scene, plugins};

const RELOAD: Action = Action::Reload { confirm: None };
/// A flow whose connectors connect at once.
const FLOW: &str = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1000 } }
  nowhere: { type: 'null' }
links: [ticks -> nowhere]";
/// A flow whose planning never ends.
const HANGS: &str = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1000 } }
  nowhere: { type: 'null' }
pipelines:
  main: { operators: [{ type: mischief, config: { fault: constructor_block } }] }
links: [ticks -> main, main -> nowhere]";

/// A run with one flow.
struct Clocked {
    scene: Scene,
    clock: Clock,
    handle: RunHandle,
    /// Value that stands for the state of the watched file.
    state: Arc<AtomicU64>,
    /// Number of looks at the watched file.
    looks: Arc<AtomicU64>,
    /// Number of times that the file was read.
    reads: Arc<AtomicU64>,
    thread: JoinHandle<usize>,
}

fn checked(path: &PathBuf) -> Result<Checked, Faulty> {
    let search = [SearchPath::new(plugins(), "this test")];
    let describer =
        Describer::new(Policy::default()).program(env!("CARGO_BIN_EXE_tremor")).cache(None);
    let (components, _) = Components::find(&search, describer, Policy::default());
    let flow = flow::load(path).map_err(|error| Faulty(error.to_string()))?;
    components.check(&flow).map_err(|error| Faulty(error.to_string()))?;
    Ok(Checked { flow: Arc::new(flow), components: Arc::new(components) })
}

impl Clocked {
    fn start() -> Self {
        let (scene, clock, handle) = (Scene::new(FLOW), Clock::stopped(), RunHandle::default());
        let path = scene.path().join("flow.yaml");
        let [state, looks, reads] = [(); 3].map(|()| Arc::<AtomicU64>::default());
        let files = {
            let (path, state) = (path.clone(), state.clone());
            let (looks, reads) = (looks.clone(), reads.clone());
            Files {
                read: Box::new(move || {
                    reads.fetch_add(1, SeqCst);
                    Ok(vec![checked(&path)?])
                }),
                watch: Some(Watch {
                    since: 0,
                    state: Box::new(move || {
                        looks.fetch_add(1, SeqCst);
                        state.load(SeqCst)
                    }),
                }),
            }
        };
        let thread = {
            let (clock, handle) = (clock.clone(), handle.clone());
            thread::spawn(move || {
                let (flows, budget) = ([checked(&path).unwrap()], MemoryBudget::default());
                let limit = Duration::from_secs(10);
                let reports =
                    run_with_reloads(&flows, files, &handle, limit, &budget, &clock, |_| {});
                reports.unwrap().len()
            })
        };
        let started = Self { scene, clock, handle, state, looks, reads, thread };
        started.until(|it| it.handle.reloads().request(Action::Plan).is_some());
        started
    }

    /// Waits until `is` returns `true`. The clock stands still, except while connectors close or try to connect.
    fn until(&self, is: impl Fn(&Self) -> bool) {
        crate::peer::wait_until(|| {
            let progress = self.handle.reloads().status().in_progress;
            if progress.is_some_and(|it| matches!(it.step, Step::Closing | Step::Connecting)) {
                self.advance(Duration::from_millis(10));
            }
            is(self)
        });
    }

    fn advance(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap();
        self.clock.set_ns(self.clock.monotonic_ns() + time);
    }

    fn write(&self, text: &str) {
        fs::write(self.scene.path().join("flow.yaml"), text).unwrap();
        self.state.fetch_add(1, SeqCst);
    }

    /// Requests an action and waits for its outcome.
    fn ask(&self, action: Action) -> Reply {
        let reply = self.handle.reloads().request(action).unwrap();
        self.until(|_| !reply.is_empty() || reply.is_closed());
        reply.try_recv().unwrap()
    }

    /// Advances the clock until the file was looked at `count` times.
    fn look(&self, count: u64) {
        let end = self.looks.load(SeqCst) + count;
        self.until(|it| {
            it.advance(Duration::from_secs(1));
            it.looks.load(SeqCst) >= end
        });
    }

    fn last(&self) -> Option<Outcome> {
        self.handle.reloads().status().last.map(|(last, _)| last)
    }

    /// Returns whether a reload waits for the components of the flow.
    fn creates(&self) -> bool {
        let progress = self.handle.reloads().status().in_progress;
        progress.is_some_and(|it| it.step == Step::Creating && it.flow.as_deref() == Some("flow"))
    }

    fn state_of_flow(&self) -> FlowState {
        self.handle.flows()[0].state
    }

    /// Ends the run, while the clock stands still.
    fn end(self) {
        self.handle.drain();
        assert_eq!(self.thread.join().unwrap(), 1, "the number of reports");
    }
}

fn other() -> String {
    FLOW.replace("1000", "2000")
}

#[test]
fn files_are_not_applied_again_after_a_return() {
    let run = Clocked::start();
    run.write(&other());
    let applied = run.ask(Action::Reload { confirm: Some(Duration::from_mins(1)) }).unwrap();
    assert_eq!((applied.result, applied.confirm_seconds), (ReloadResult::Applied, Some(60)));
    let reads = run.reads.load(SeqCst);
    run.look(70);
    run.until(|it| it.last().is_some_and(|it| it.result == ReloadResult::Returned));
    run.look(5);
    assert_eq!(run.reads.load(SeqCst), reads, "nobody has changed the file since");
    assert_eq!(run.ask(Action::Plan).unwrap().flows[0].change.as_str(), "changed");
    // A later change is read as usual.
    run.write(&other());
    run.look(3);
    run.until(|it| it.last().is_some_and(|it| it.result == ReloadResult::Applied));
    let status = run.handle.reloads().status();
    assert_eq!((status.generation, status.returned, status.confirm_until), (3, 1, None));
    run.end();
}

#[test]
fn watched_change_does_not_confirm_a_reload() {
    let run = Clocked::start();
    run.write(&other());
    run.ask(Action::Reload { confirm: Some(Duration::from_mins(10)) }).unwrap();
    let until = run.handle.reloads().status().confirm_until;
    run.write(&FLOW.replace("1000", "3000"));
    run.look(3);
    run.until(|it| it.handle.reloads().status().generation == 2);
    assert_eq!(run.handle.reloads().status().confirm_until, until);
    // The configuration of before is that of the beginning, which the file has again.
    run.look(600);
    run.until(|it| it.last().is_some_and(|it| it.result == ReloadResult::Returned));
    run.write(FLOW);
    assert_eq!(run.ask(RELOAD).unwrap().result, ReloadResult::Unchanged);
    run.end();
}

#[test]
fn hanging_constructor_ends_reload_after_30_seconds() {
    let run = Clocked::start();
    run.write(HANGS);
    let (begin, reply) = (run.clock.now(), run.handle.reloads().request(RELOAD).unwrap());
    run.until(|it| {
        if it.creates() {
            it.advance(Duration::from_secs(1));
        }
        !reply.is_empty()
    });
    assert!(run.clock.elapsed(begin) >= Duration::from_secs(30));
    let outcome = reply.try_recv().unwrap().unwrap();
    assert_eq!(outcome.result, ReloadResult::Refused);
    let expected = "error: the components of flow `flow` were not created within 30 s: these calls have not returned: \
                    `main` of flow `flow`: operator `mischief`: new";
    assert_eq!(outcome.errors, [expected]);
    assert_eq!(run.state_of_flow(), FlowState::Running);
    run.end();
}

#[test]
fn end_of_the_run_ends_reload_with_hanging_constructor() {
    let run = Clocked::start();
    run.write(HANGS);
    let reply = run.handle.reloads().request(RELOAD).unwrap();
    run.until(Clocked::creates);
    run.end();
    let outcome = reply.recv_blocking().unwrap().unwrap();
    assert_eq!(outcome.result, ReloadResult::Interrupted);
}

/// A reload waits for the requests of before it only, so requests that wait are served by one further reload.
#[test]
fn requests_that_wait_are_served_by_one_reload() {
    let run = Clocked::start();
    run.write(HANGS);
    let first = run.handle.reloads().request(RELOAD).unwrap();
    run.until(Clocked::creates);
    run.write(&other());
    let times = [Some(Duration::from_secs(5)), Some(Duration::from_secs(7))];
    let replies =
        times.map(|confirm| run.handle.reloads().request(Action::Reload { confirm }).unwrap());
    assert_eq!(run.handle.reloads().status().waiting, 2);
    let reads = run.reads.load(SeqCst);
    run.until(|it| {
        if first.is_empty() {
            it.advance(Duration::from_secs(1));
        }
        !replies[1].is_empty()
    });
    assert_eq!(run.reads.load(SeqCst), reads + 1);
    for reply in replies {
        let outcome = reply.try_recv().unwrap().unwrap();
        assert_eq!((outcome.result, outcome.confirm_seconds), (ReloadResult::Applied, Some(7)));
    }
    run.end();
}
