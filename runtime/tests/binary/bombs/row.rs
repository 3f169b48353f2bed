//! A row of the table of bombs: a flow, a hostile peer of its connector `target`, and what has to hold whatever breaks
//! meanwhile.

use std::{
    fs, panic,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{GOOD, INPUT, MOST};
use crate::{
    api::{Asked, start_with},
    peer::free_port,
    tremor::Scene,
};

/// Longest time that a good event may take after a bomb, and that a drain may take. Much longer than either takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time after which a good event is sent again: the connection that it was sent on may have been lost with the
/// connector that was restarted, and UDP may lose it.
const AGAIN: Duration = Duration::from_secs(2);

/// Interval in which the memory of the process is read while the process drains.
const SAMPLE: Duration = Duration::from_millis(5);

/// Beginning of the metric that counts what the attacked sink has delivered.
const DELIVERED: &str = r#"tremor_events_total{flow="flow",component="target",role="sink",port="out",result="delivered"}"#;

/// Fate of the connection that a bomb is sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The connection stays open until the next bomb or good event.
    Stays,
    /// The connection is closed after the bomb.
    Closes,
    /// The connection is reset after half of the bomb.
    Breaks,
}

/// The hostile peer of a flow. Both functions may be called in any order.
pub(super) trait Peer {
    /// Sends the bomb, or as much of it as the flow reads.
    fn attack(&mut self, then: Then);

    /// Sends an event to a source that begins with [`GOOD`] and ends with this number, or lets a sink deliver.
    fn send_good(&mut self, number: usize);
}

/// A flow with a connector that is attacked.
pub(super) struct Target {
    scene: Scene,
    is_sink: bool,
}

impl Target {
    /// A source whose good events go to standard output. `keys` are those of the connector.
    pub(super) fn source(keys: &str) -> Self {
        let scene = Scene::new(&format!(
            "connectors:
  target: {{ {keys} }}
  output: {{ type: stdio, codec: string, postprocessors: [lines] }}
  refused: {{ type: 'null' }}
pipelines:
  good: {{ operators: [{{ type: filter, config: {{ field: '', starts_with: {GOOD} }} }}] }}
links: [target -> good, good -> output, target/err -> refused]"
        ));
        Self { scene, is_sink: false }
    }

    /// A sink that gets an event every few milliseconds. `keys` are those of the connector.
    pub(super) fn sink(keys: &str) -> Self {
        let scene = Scene::new(&format!(
            "connectors:
  ticks: {{ type: metronome, config: {{ interval_ms: 5 }} }}
  target: {{ {keys} }}
  refused: {{ type: 'null' }}
links: [ticks -> target, target/err -> refused]"
        ));
        Self { scene, is_sink: true }
    }

    /// Adds a file to the folder of the flow.
    pub(super) fn write(self, name: &str, bytes: &[u8]) -> Self {
        Self { scene: self.scene.write(name, bytes), ..self }
    }
}

/// An address of the loopback interface that is free.
pub(super) fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// A running flow and its hostile peer.
struct Row<'n> {
    name: &'n str,
    asked: Asked,
    peer: Box<dyn Peer>,
    is_sink: bool,
    sent: usize,
}

/// Sends the bomb four times: the connection is closed after it, the connection breaks, the connector is restarted,
/// the flow drains. Each time a good event arrives, but for the drain, which ends.
#[track_caller]
pub(super) fn survives(
    name: &str,
    target: Target,
    bytes: usize,
    make: impl FnOnce(&Asked) -> Box<dyn Peer>,
) {
    survives_within(MOST, name, target, bytes, make);
}

/// Attacks like [`survives`], with another limit for the memory of the process, in bytes.
#[track_caller]
pub(super) fn survives_within(
    most: u64,
    name: &str,
    target: Target,
    bytes: usize,
    make: impl FnOnce(&Asked) -> Box<dyn Peer>,
) {
    assert!(bytes <= INPUT, "{name}: {bytes} bytes");
    let start = Instant::now();
    let arguments = ["--drain-timeout", "3", "flow.yaml"];
    let Target { scene, is_sink } = target;
    let asked = start_with(scene, &arguments, 1, |it| it.env("TREMOR_LOG", "info"));
    let peer = make(&asked);
    let mut row = Row { name, asked, peer, is_sink, sent: 0 };
    for then in [Then::Closes, Then::Breaks] {
        row.peer.attack(then);
        row.good_event_arrives(&format!("{then:?}"));
    }
    row.peer.attack(Then::Stays);
    row.restart();
    row.good_event_arrives("restart");
    row.peer.attack(Then::Stays);
    let peak = row.drain();
    eprintln!("{name}: {bytes} bytes took {} MiB, {:?}", peak >> 20, start.elapsed());
    assert!(peak < most, "{name}: {} MiB of {} MiB", peak >> 20, most >> 20);
}

impl Row<'_> {
    #[track_caller]
    fn good_event_arrives(&mut self, after: &str) {
        self.sent += 1;
        let delivered = self.delivered();
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            self.peer.send_good(self.sent);
            let again = Instant::now() + AGAIN;
            if if self.is_sink { self.delivers(delivered, again) } else { self.arrives(again) } {
                return;
            }
        }
        let (_, flow) = self.asked.request("GET", "/v1/flows/flow");
        panic!("{}: no good event after {after}: {flow}", self.name);
    }

    /// Waits for the good event on standard output until `end`. Returns whether it arrived.
    fn arrives(&self, end: Instant) -> bool {
        let number = format!(" {}", self.sent);
        while let Some(event) = self.asked.event_until(end) {
            if event.starts_with(GOOD) && event.ends_with(&number) {
                return true;
            }
        }
        false
    }

    /// Returns the number of events that the sink has delivered.
    fn delivered(&self) -> u64 {
        let (_, metrics) = self.asked.request("GET", "/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(DELIVERED));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }

    /// Waits until the sink has delivered more than `before` events, or until `end`. Returns whether it has.
    fn delivers(&self, before: u64, end: Instant) -> bool {
        while Instant::now() < end {
            if self.delivered() > before {
                return true;
            }
            thread::sleep(SAMPLE);
        }
        false
    }

    #[track_caller]
    fn restart(&self) {
        let target = "/v1/flows/flow/connectors/target";
        let before = self.asked.json("GET", target)["restarts"].as_u64();
        self.asked.json("POST", &format!("{target}/restart"));
        // A hostile server may let the new instance never connect.
        self.asked.until(target, |it| it["restarts"].as_u64() > before);
    }

    /// Ends the flow, and returns the maximum memory of the process, in bytes.
    #[track_caller]
    fn drain(self) -> u64 {
        let Self { name, asked, peer, .. } = self;
        let process = asked.pid();
        let peak = Arc::new(AtomicU64::new(peak_memory(process).unwrap_or(0)));
        let sampled = peak.clone();
        let sampler = thread::spawn(move || {
            while let Some(memory) = peak_memory(process) {
                sampled.fetch_max(memory, Relaxed);
                thread::sleep(SAMPLE);
            }
        });
        let start = Instant::now();
        let run = asked.stop("TERM");
        assert!(start.elapsed() < PATIENCE, "{name}: the drain took {:?}", start.elapsed());
        drop(peer);
        // A drain that has not delivered everything within its deadline ends with status 1, or with 4 if the source asks for
        // no acknowledgements. Either may happen on a busy machine.
        let is_expected = matches!(run.status, Some(0 | 1 | 4));
        assert!(is_expected, "{name}: {:?}: {}", run.status, run.stderr);
        sampler.join().unwrap_or_else(|failure| panic::resume_unwind(failure));
        peak.load(Relaxed)
    }
}

/// Returns the maximum memory that a process has had, in bytes, or `None` once it has ended.
fn peak_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}
