//! A random tester. It runs random flows of a plugin that answers at random. At random times it pauses, resumes and
//! restarts connectors, and sends signals to processes.
//!
//! The test runs for 30 seconds, or for `TREMOR_RANDOM_SECONDS`. A failure names its seed. With `TREMOR_SEED`, only
//! that case runs, with the same flow, faults and changes, but with other timing.

mod flow;
mod record;

use std::{
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
    tremor::Scene,
};

/// Maximum time until a flow ends after the last disturbance.
const PATIENCE: Duration = Duration::from_mins(1);
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
    let seconds = number("TREMOR_RANDOM_SECONDS").unwrap_or(30);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = u64::from(fastrand::u32(..));
    let first = seed;
    while Instant::now() < end {
        if let Err(failure) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("the random flow of TREMOR_SEED={seed} failed; this variable repeats it");
            resume_unwind(failure);
        }
        seed += 1;
    }
    eprintln!("{} random flows from seed {first} on", seed - first);
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
            disturb(&asked, &flow, &mut random);
            let signal = ["TERM", "KILL"][random.usize(..2)];
            let ended = asked.stop(signal);
            // The status is 4 if a drain was not completed in time. A killed process has no status.
            let is_expected = matches!(ended.status, Some(0 | 3 | 4)) || signal == "KILL";
            assert!(is_expected, "{:?}: {}", ended.status, ended.stderr);
            record::judge(&flow, folder.path());
        }
        let asked = start(folder.path(), &mut random);
        disturb(&asked, &flow, &mut random);
        finish(&asked, folder.path());
        asked.end();
        assert_eq!(flow.acknowledged(folder.path()), flow.counts(), "acknowledged");
        record::judge(&flow, folder.path());
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

/// Changes connectors and stops the process at random moments, and resumes all connectors at the end.
fn disturb(asked: &Asked, flow: &Flow, random: &mut Rng) {
    let change = |connector: &str, change: &str| {
        // Ignore the result: the request fails if the flow has ended.
        asked.request("POST", &format!("/v1/flows/flow/connectors/{connector}/{change}"));
    };
    for _ in 0..random.usize(0..30) {
        let connector = &flow.connectors[random.usize(..flow.connectors.len())];
        match random.usize(..9) {
            0..3 => change(connector, "restart"),
            3 | 4 => change(connector, "pause"),
            5 | 6 => change(connector, "resume"),
            7 => asked.signal(&[["HUP", "USR1", "USR2"][random.usize(..3)]]),
            _ => {
                asked.signal(&["STOP"]);
                thread::sleep(Duration::from_millis(random.u64(..30)));
                asked.signal(&["CONT"]);
            }
        }
        thread::sleep(Duration::from_millis(random.u64(..20)));
    }
    flow.connectors.iter().for_each(|connector| change(connector, "resume"));
}

/// Waits until the flow has ended, and checks which resources are left in the process.
fn finish(asked: &Asked, folder: &Path) {
    let start = Instant::now();
    loop {
        let status = asked.json("GET", "/v1/flows/flow");
        if status["state"] == "stopped" {
            break;
        }
        assert!(status["state"] != "failed" && start.elapsed() < PATIENCE, "{status:#}");
        thread::sleep(Duration::from_millis(20));
    }
    let process = format!("/proc/{}", asked.pid());
    let open = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.unwrap().path()).ok();
    let descriptors = fs::read_dir(format!("{process}/fd")).unwrap().filter_map(open);
    let left: Vec<_> = descriptors.filter(|path| path.starts_with(folder)).collect();
    assert!(left.is_empty(), "open after the end of the flow: {left:?}");
    let threads = fs::read_dir(format!("{process}/task")).unwrap().count();
    assert!(threads <= THREADS, "{threads} threads");
    let pages = fs::read_to_string(format!("{process}/statm")).unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    let memory = pages * rustix::param::page_size();
    assert!(memory <= MEMORY, "{} MiB", memory >> 20);
}
