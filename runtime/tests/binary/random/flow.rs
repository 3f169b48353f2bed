//! Random flows for the random tester.

use std::{fmt::Write, fs, path::Path};

use fastrand::Rng;

/// A flow of sources and sinks of the fixture `dice`.
pub(super) struct Flow {
    /// Text of the flow file.
    pub(super) text: String,
    /// Names of the sources and the sinks.
    pub(super) connectors: Vec<String>,
    pub(super) sources: Vec<Source>,
    pub(super) sinks: Vec<Sink>,
}

pub(super) struct Source {
    pub(super) name: String,
    /// Number of events.
    pub(super) count: u64,
    /// Number of streams. The events belong to the streams in turn.
    pub(super) streams: u64,
}

pub(super) struct Sink {
    pub(super) name: String,
    /// `true` if the deliveries of a stream do not overlap and keep its order.
    pub(super) is_ordered: bool,
    /// `true` if events that the sink rejects three times are dead letters.
    pub(super) gives_up: bool,
    /// Treatment of events for which the queue of the sink has no capacity.
    pub(super) when_full: WhenFull,
    /// `true` if the queue of the sink is on disk.
    pub(super) is_stored: bool,
    /// Indices of the sources that feed the sink.
    pub(super) sources: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenFull {
    Block,
    DropNewest,
    DropOldest,
    DeadLetter,
}

impl WhenFull {
    const ALL: [(Self, &str); 4] = [
        (Self::Block, "block"),
        (Self::DropNewest, "drop_newest"),
        (Self::DropOldest, "drop_oldest"),
        (Self::DeadLetter, "dead_letter"),
    ];

    /// Returns whether acknowledged events may be lost.
    pub(super) fn drops(self) -> bool {
        matches!(self, Self::DropNewest | Self::DropOldest)
    }
}

/// Average number of bytes in the record of a sink for an event that it was given and accepts.
const BYTES: u64 = 32;

/// Settings for fast reconnects and retries, so that faults take little time.
const SOON: &str = "
    reconnect: { backoff: 1ms, max_backoff: 5ms }
    restart: { attempts: 1000000 }";

impl Flow {
    pub(super) fn random(random: &mut Rng) -> Self {
        let mut text = "name: flow\nconnectors:".to_owned();
        let sources: Vec<Source> =
            (0..random.usize(1..=3)).map(|at| source(at, random, &mut text)).collect();
        let mut sinks: Vec<Sink> =
            (0..random.usize(1..=3)).map(|at| sink(at, random, &mut text)).collect();
        for Sink { name, .. } in &sinks {
            let _ = write!(
                text,
                "\n  {name}-dead: {{ type: file, codec: json, postprocessors: [lines], \
                 config: {{ path: {name}.dead, mode: append, sync: batch }} }}"
            );
        }
        text += "\npipelines:";
        let pipelines = random.usize(1..=2);
        for at in 0..pipelines {
            let operator = ["passthrough", "mischief: { ports: [] }"][random.usize(..2)];
            let _ = write!(text, "\n  pipeline{at}: {{ operators: [{operator}] }}");
        }
        text += "\nlinks:";
        let mut link = |from: &str, to: &str| {
            ["\n  - ", from, " -> ", to].iter().for_each(|part| text.push_str(part));
        };
        // Give each pipeline at least one source, and each sink at least one pipeline or source.
        let feeds: Vec<Vec<usize>> = (0..pipelines)
            .map(|at| {
                let is_fed = |_: &usize| random.bool();
                let mut feeds: Vec<usize> = (0..sources.len()).filter(is_fed).collect();
                if feeds.is_empty() {
                    feeds.push(at % sources.len());
                }
                feeds.iter().for_each(|from| link(&sources[*from].name, &format!("pipeline{at}")));
                feeds
            })
            .collect();
        let count = sinks.len();
        for (at, sink) in sinks.iter_mut().enumerate() {
            let pipeline = random.usize(..pipelines);
            link(&format!("pipeline{pipeline}"), &sink.name);
            sink.sources.clone_from(&feeds[pipeline]);
            for (from, source) in sources.iter().enumerate() {
                // Link each source that has no other link to the last sink.
                let is_left = !feeds.iter().any(|feeds| feeds.contains(&from));
                if !sink.sources.contains(&from)
                    && (random.u8(..4) == 0 || (is_left && at + 1 == count))
                {
                    link(&source.name, &sink.name);
                    sink.sources.push(from);
                }
            }
            link(&format!("{}/err", sink.name), &format!("{}-dead", sink.name));
        }
        let names = sources.iter().map(|it| &it.name).chain(sinks.iter().map(|it| &it.name));
        let connectors = names.cloned().collect();
        Self { text, connectors, sources, sinks }
    }

    /// Returns the number of acknowledged events of each source, as the sources recorded them.
    pub(super) fn acknowledged(&self, folder: &Path) -> Vec<u64> {
        let file = |source: &Source| folder.join(format!("{}.at", source.name));
        let number = |path| fs::read_to_string(path).map_or(0, |text| text.parse().unwrap());
        self.sources.iter().map(file).map(number).collect()
    }

    /// Returns the number of events that the sinks have to accept.
    pub(super) fn deliveries(&self) -> u64 {
        let sources = self.sinks.iter().flat_map(|sink| &sink.sources);
        sources.map(|at| self.sources[*at].count).sum()
    }

    /// Returns the number of events that the sinks were given, from the size of their records.
    pub(super) fn recorded(&self, folder: &Path) -> u64 {
        let file = |sink: &Sink| folder.join(format!("{}.record", sink.name));
        let size = |path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        self.sinks.iter().map(file).map(size).sum::<u64>() / BYTES
    }

    /// Returns the number of events of each source.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.sources.iter().map(|source| source.count).collect()
    }
}

fn source(at: usize, random: &mut Rng, text: &mut String) -> Source {
    let source = Source {
        name: format!("source{at}"),
        count: random.u64(1..3_000),
        streams: random.u64(1..9),
    };
    let Source { name, count, streams } = &source;
    let (fragments, seed, faults) = (random.bool(), random.u32(..), random.usize(..6));
    let _ = write!(text, "\n  {name}:\n    type: dice\n    codec: string{SOON}");
    if fragments {
        text.push_str("\n    preprocessors: [lines]");
    }
    if random.bool() {
        let _ = write!(text, "\n    pull: {{ max_events: {} }}", random.usize(1..60));
    }
    let _ = write!(
        text,
        "\n    config: {{ seed: {seed}, faults: {faults}, count: {count}, streams: {streams}, \
         fragments: {fragments} }}"
    );
    source
}

fn sink(at: usize, random: &mut Rng, text: &mut String) -> Sink {
    let (is_ordered, gives_up) = (random.u8(..3) > 0, random.u8(..4) == 0);
    let (when_full, policy) = WhenFull::ALL[random.usize(..WhenFull::ALL.len())];
    let (name, sources, is_stored) = (format!("sink{at}"), Vec::new(), random.u8(..3) == 0);
    let sink = Sink { name, is_ordered, gives_up, when_full, is_stored, sources };
    let Sink { name, is_ordered, gives_up, .. } = &sink;
    let _ = write!(
        text,
        "\n  {name}:\n    type: dice\n    codec: string{SOON}\n    ordered: {is_ordered}"
    );
    let attempts = if *gives_up { "attempts: 2, " } else { "" };
    let _ = write!(text, "\n    retry: {{ {attempts}backoff: 1ms, max_backoff: 5ms }}");
    if random.bool() {
        text.push_str("\n    postprocessors: [lines]");
    }
    if random.bool() {
        let _ = write!(text, "\n    in_flight: {}", random.usize(1..=8));
    }
    if random.bool() {
        let (events, linger) = (random.usize(1..200), random.usize(1..10));
        let _ = write!(text, "\n    batch: {{ max_events: {events}, linger: {linger}ms }}");
    }
    let limit = if random.bool() {
        format!("max_events: {}, ", random.usize(1..300))
    } else {
        String::new()
    };
    // The least queue on disk, so that some are full.
    let disk = if is_stored {
        format!("disk: {{ path: queue-{name}, max_bytes: 1MiB }}, ")
    } else {
        String::new()
    };
    let _ = write!(text, "\n    queue: {{ {limit}{disk}when_full: {policy} }}");
    let (seed, faults, rejects) = (random.u32(..), random.usize(..6), random.bool());
    let _ = write!(text, "\n    config: {{ seed: {seed}, faults: {faults}, rejects: {rejects} }}");
    sink
}
