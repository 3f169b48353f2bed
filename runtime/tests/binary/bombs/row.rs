//! A row of the table of bombs: a flow, a hostile peer of its connector `target`, and the conditions that have to be
//! met during the attack.

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
    tremor::Scene,
};

/// Maximum time until a valid event arrives after a bomb, and maximum time of a drain. The event and the drain usually
/// take much less time.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time after which a valid event is sent again. The first one may have been lost with the connection of a restarted
/// connector, or by UDP.
const RESEND_AFTER: Duration = Duration::from_secs(2);

/// Time between two reads of the process's memory while it drains.
const SAMPLE: Duration = Duration::from_millis(5);

/// Beginning of the line of the metric that counts the events that the attacked sink has delivered.
const DELIVERED: &str = r#"tremor_events_total{flow="flow",component="target",role="sink",port="out",result="delivered"}"#;

/// Treatment of the connection on which a bomb is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The connection stays open until the next bomb or valid event.
    Stays,
    /// The connection is closed after the bomb.
    Closes,
    /// The connection is reset after half of the bomb.
    Breaks,
}

/// The hostile peer of a flow. The methods may be called in any order.
pub(super) trait Peer {
    /// Sends the bomb, or the part of it that the flow reads.
    fn attack(&mut self, then: Then);

    /// Sends an event that begins with [`GOOD`] and ends with `number`, if the connector is a source. Lets the
    /// connector deliver, if it is a sink.
    fn send_good(&mut self, number: usize);
}

/// A flow with a connector that is attacked.
pub(super) struct Target {
    scene: Scene,
    is_sink: bool,
}

impl Target {
    /// Returns a flow whose source is attacked. Its valid events go to standard output. `keys` are the keys of the
    /// source.
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

    /// Returns a flow whose sink is attacked. The sink gets an event every few milliseconds. `keys` are the keys of the
    /// sink.
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

/// A running flow and its hostile peer.
struct Row<'n> {
    name: &'n str,
    asked: Asked,
    peer: Box<dyn Peer>,
    is_sink: bool,
    sent: usize,
}

/// Sends the bomb four times. The connection is closed after the first bomb and reset within the second one, and the
/// connector is restarted after the third one. After each of these bombs, a valid event has to arrive. After the fourth
/// bomb the flow is drained, and the drain has to end.
#[track_caller]
pub(super) fn survives(
    name: &str,
    target: Target,
    bytes: usize,
    make: impl FnOnce(&Asked) -> Box<dyn Peer>,
) {
    survives_within(MOST, name, target, bytes, make);
}

/// Attacks like [`survives`], with another memory limit of the process, in bytes.
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
            let again = Instant::now() + RESEND_AFTER;
            if if self.is_sink { self.delivers(delivered, again) } else { self.arrives(again) } {
                return;
            }
        }
        let (_, flow) = self.asked.request("GET", "/v1/flows/flow");
        panic!("{}: no valid event after {after}: {flow}", self.name);
    }

    /// Waits until `end` for the valid event on standard output. Returns whether the event arrived.
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

    /// Waits until `end` for the sink to deliver more than `before` events. Returns whether it did.
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
        // Do not wait for a connection, because with a hostile server the new instance may never connect.
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
        // A drain that has not delivered everything within its deadline ends with status 1, or with 4 if the source
        // does not request acknowledgements. This may happen on a busy machine.
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
