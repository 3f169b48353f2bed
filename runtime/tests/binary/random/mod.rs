//! A random tester. It runs random flows of a plugin that answers at random, with queues in memory and on disk. At random
//! points of their progress it pauses, resumes and restarts connectors, and sends signals to processes.
//!
//! By default, the test runs the same [`COUNT`] flows each time, and those that failed before ([`FAILED`]). With
//! `TREMOR_RANDOM_SECONDS`, it runs flows with new seeds for this time. A failure names its seed. With `TREMOR_SEED`,
//! only that flow runs.
//!
//! The seed determines the flow, its faults, the changes, and how many events the sinks are given between two changes.
//! It does not determine how the threads of the process are scheduled, and therefore not at which event a fault or a
//! change happens.

mod flow;
mod record;

use std::{
    collections::HashSet,
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;

use self::flow::Flow;
use crate::{
    api::{Asked, start_with},
    peer::wait_until,
    tremor::Scene,
};

/// Number of flows that run by default. Their seeds are the numbers from 0 on.
const COUNT: u64 = 30;
/// Seeds of flows that failed before.
const FAILED: &[u64] = &[];

/// Minimum number of changes during which a flow delivers all its events, if nothing is delivered twice.
const CHANGES: u64 = 10;
/// Number of checks in which the records do not grow until a flow with a paused connector counts as idle.
const IDLE_CHECKS: usize = 5;
/// Maximum memory of a process whose random flow has ended, in bytes.
const MEMORY: usize = 160 << 20;
/// Maximum number of threads of such a process, including idle threads for blocking work.
const THREADS: usize = 40;

/// A flow that keeps the process running, so that the resources that the random flow has left can be counted.
const ALIVE: &str = "connectors:
  alive: { type: metronome, config: { interval_ms: 3600000 } }
  nothing: { type: 'null' }
links: [alive -> nothing]";

#[test]
fn random_flows_lose_nothing_and_keep_their_order() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("TREMOR_SEED") {
        return run(seed);
    }
    let Some(seconds) = number("TREMOR_RANDOM_SECONDS") else {
        return (0..COUNT).chain(FAILED.iter().copied()).for_each(run_named);
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let first = u64::from(fastrand::u32(..));
    let mut seed = first;
    while Instant::now() < end {
        run_named(seed);
        seed += 1;
    }
    eprintln!("{} random flows from seed {first} on", seed - first);
}

/// Runs the flow of this seed. If the flow fails, prints how to repeat it.
fn run_named(seed: u64) {
    if let Err(failure) = catch_unwind(|| run(seed)) {
        eprintln!(
            "the random flow of TREMOR_SEED={seed} failed; this variable repeats it. Add the seed to `FAILED` in \
             runtime/tests/binary/random/mod.rs"
        );
        resume_unwind(failure);
    }
}

/// Runs a random flow to its end, in one process or in two.
fn run(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let flow = Flow::random(&mut random);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("flow.yaml"), &flow.text).unwrap();
    fs::write(folder.path().join("alive.yaml"), ALIVE).unwrap();
    let judged = catch_unwind(AssertUnwindSafe(|| {
        if random.bool() {
            let asked = start(folder.path(), &mut random);
            Disturbance::new(&asked, &flow, folder.path()).run(&mut random);
            let signal = ["TERM", "KILL"][random.usize(..2)];
            let ended = asked.stop(signal);
            // The status is 4 if a drain was not completed in time. A killed process has no status.
            let is_expected = matches!(ended.status, Some(0 | 3 | 4)) || signal == "KILL";
            assert!(is_expected, "{:?}: {}", ended.status, ended.stderr);
            record::judge(&flow, folder.path(), false);
        }
        let mut asked = start(folder.path(), &mut random);
        Disturbance::new(&asked, &flow, folder.path()).run(&mut random);
        finish(&mut asked, folder.path());
        balance(&asked);
        asked.end();
        assert_eq!(flow.acknowledged(folder.path()), flow.counts(), "acknowledged");
        record::judge(&flow, folder.path(), true);
    }));
    if let Err(failure) = judged {
        eprintln!("{}\nrecords of the flow: {}", flow.text, folder.keep().display());
        resume_unwind(failure);
    }
}

fn start(folder: &Path, random: &mut Rng) -> Asked {
    let [flow, alive] = ["flow.yaml", "alive.yaml"].map(|name| folder.join(name));
    let flows = [flow.to_str().unwrap(), alive.to_str().unwrap()];
    let threads = random.usize(1..=3).to_string();
    start_with(Scene::new(""), &flows, 2, |command| {
        command.env("TREMOR_THREADS", threads).env("TREMOR_LOG", "info")
    })
}

/// Changes of a running flow.
struct Disturbance<'t> {
    asked: &'t Asked,
    flow: &'t Flow,
    folder: &'t Path,
    /// Names of the connectors that are paused.
    paused: HashSet<&'t str>,
}

impl<'t> Disturbance<'t> {
    fn new(asked: &'t Asked, flow: &'t Flow, folder: &'t Path) -> Self {
        Self { asked, flow, folder, paused: HashSet::new() }
    }

    /// Changes connectors and stops the process at random points, and resumes all connectors at the end.
    fn run(mut self, random: &mut Rng) {
        for _ in 0..random.usize(0..30) {
            let connector = &*self.flow.connectors[random.usize(..self.flow.connectors.len())];
            match random.usize(..9) {
                0..3 => self.change(connector, "restart"),
                3 | 4 => {
                    self.paused.insert(connector);
                    self.change(connector, "pause");
                }
                5 | 6 => self.resume(connector),
                7 => self.asked.signal(&[["HUP", "USR1", "USR2"][random.usize(..3)]]),
                _ => {
                    self.asked.signal(&["STOP"]);
                    // While the process is stopped, nothing but its timers can make progress.
                    thread::sleep(Duration::from_millis(random.u64(..30)));
                    self.asked.signal(&["CONT"]);
                }
            }
            self.progress(random.u64(..=self.flow.deliveries() / CHANGES));
        }
        self.flow.connectors.iter().for_each(|connector| self.resume(connector));
    }

    fn change(&self, connector: &str, change: &str) {
        // Ignore the result: the request fails if the flow has ended.
        self.asked.request("POST", &format!("/v1/flows/flow/connectors/{connector}/{change}"));
    }

    fn resume(&mut self, connector: &str) {
        self.paused.remove(connector);
        self.change(connector, "resume");
    }

    /// Waits until the sinks have been given `events` more or all events are acknowledged. A flow with a paused
    /// connector can become idle before; as nothing reports that, it counts as idle when the records do not grow any
    /// more.
    fn progress(&self, events: u64) {
        let (counts, begin) = (self.flow.counts(), self.flow.recorded(self.folder));
        let (mut before, mut idle) = (begin, 0);
        wait_until(|| {
            let recorded = self.flow.recorded(self.folder);
            idle = if recorded > before { 0 } else { idle + 1 };
            before = recorded;
            let is_idle = idle >= IDLE_CHECKS && !self.paused.is_empty();
            recorded.saturating_sub(begin) >= events
                || is_idle
                || self.flow.acknowledged(self.folder) == counts
        });
    }
}

/// Checks that each component, and the flow, accounts for each event that entered it, that it created, or that its queue
/// on disk contained at the start. These queues are empty.
fn balance(asked: &Asked) {
    let flow = asked.json("GET", "/v1/flows/flow");
    let (mut entered, mut ended) = (0, 0);
    for component in flow["components"].as_array().unwrap() {
        let (role, events) = (component["role"].as_str().unwrap(), &component["events"]);
        let sum =
            |names: &[&str]| names.iter().map(|it| events[*it].as_u64().unwrap()).sum::<u64>();
        let left = ["delivered", "dead_lettered", "discarded", "merged", "failed", "dropped"];
        assert_eq!(sum(&["taken", "created"]), sum(&left), "{component}");
        assert_eq!(events["in_flight"], 0, "{component}");
        let stored = &component["stored"];
        if stored.is_object() {
            assert_eq!(stored["now"], 0, "{component}");
            entered += stored["at_start"].as_u64().unwrap();
            entered += stored["redelivered"].as_u64().unwrap();
        }
        // The next component has taken the events that a component passed on.
        entered += sum(if role == "source" { &["taken", "created"] } else { &["created"] });
        ended += sum(&left[2..]) + if role == "sink" { sum(&["delivered"]) } else { 0 };
    }
    assert_eq!(entered, ended, "{flow}");
}

/// Waits until the flow has ended, and checks which resources are left in the process.
fn finish(asked: &mut Asked, folder: &Path) {
    let line = asked.until_log("the flow has ");
    assert!(line.contains("the flow has ended"), "{line}");
    asked.until("/v1/flows/flow", |status| status["state"] == "stopped");
    let process = format!("/proc/{}", asked.pid());
    let open = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.unwrap().path()).ok();
    // After SIGHUP, a reload may still read the files of a queue, because it checks the folder.
    wait_until(|| {
        let descriptors = fs::read_dir(format!("{process}/fd")).unwrap();
        !descriptors.filter_map(open).any(|path| path.starts_with(folder))
    });
    let threads = fs::read_dir(format!("{process}/task")).unwrap().count();
    assert!(threads <= THREADS, "{threads} threads");
    let pages = fs::read_to_string(format!("{process}/statm")).unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    let memory = pages * rustix::param::page_size();
    assert!(memory <= MEMORY, "{} MiB", memory >> 20);
}
