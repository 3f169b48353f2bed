//! Random changes of the links of a running flow, compared with a model: every event reaches exactly the sinks of one
//! version of the links, and the versions follow each other in the order of the events.
//!
//! The flow runs on one thread with a simulated clock, so a seed determines everything.

use std::{
    collections::{BTreeSet, VecDeque},
    num::NonZeroU64,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use fastrand::Rng;
use tremor_pdk::{Acks, Batch, Error, Operator, Pull, Result, lock};

use super::{
    AT_ONCE, LONG, Reports, Setup, attempts,
    doubles::{Fives, RecordingAcks, Records, ScriptedSink, Shared, SinkScript},
    peer::Peer,
    pulls,
    relinking::remove,
    replacing::{Silent, until},
    settled, sorted,
};
use crate::{
    dynamic::DynSource,
    engine::{FlowHandle, exchange},
    executor::{first, yield_now},
    flow::Flow,
};

const SEEDS: u64 = 60;

/// Number of changes of a run.
const CHANGES: usize = 12;

/// The sinks that join and leave. The source always feeds `sink` too.
const SINKS: [&str; 2] = ["peer", "letters"];

/// A source that reads numbers, with random rests, until it has to end.
#[derive(Clone)]
struct Drip {
    random: Rng,
    next: Shared<u64>,
    is_over: Arc<AtomicBool>,
    reports: Reports,
}

impl DynSource for Drip {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        if self.is_over.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(Pull::Finished));
        }
        if self.random.bool() {
            return Poll::Ready(Ok(Pull::Idle(Duration::from_millis(self.random.u64(1..20)))));
        }
        let mut next = lock(&self.next);
        for _ in 0..self.random.u8(1..4) {
            batch.push_message(next.to_string().as_bytes());
            *next += 1;
        }
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        let reports = self.reports.clone();
        Ok(Some(Box::new(RecordingAcks { reports, ..RecordingAcks::default() })))
    }
}

/// The way of events from the source to a sink.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Route {
    Absent,
    Direct,
    Main,
    Late,
}

/// Behaviour of a sink from when it joins until it leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Works,
    /// The connection is lost at random deliveries.
    Flaky,
    /// The sink answers nothing.
    Silent,
    /// The sink connects once, and never again.
    Lost,
    /// The constructor fails.
    Broken,
    /// The first attempt to connect fails, and no other is made.
    Refused,
}

impl Mood {
    fn random(random: &mut Rng) -> Self {
        let moods =
            [Self::Works, Self::Flaky, Self::Silent, Self::Lost, Self::Broken, Self::Refused];
        if random.bool() { Self::Works } else { moods[random.usize(..moods.len())] }
    }

    /// Returns whether a sink delivers all of its events, also after it was removed.
    fn delivers(self) -> bool {
        matches!(self, Self::Works | Self::Flaky)
    }
}

/// A version of the links.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    routes: [Route; 2],
    moods: [Mood; 2],
    /// Numbers of operators of the pipelines `main` and `late`.
    operators: [usize; 2],
}

impl Version {
    const FIRST: Self =
        Self { routes: [Route::Absent; 2], moods: [Mood::Works; 2], operators: [0; 2] };

    /// Returns a random successor. A sink that stays keeps its mood.
    fn successor(&self, random: &mut Rng) -> Self {
        let routes = [Route::Absent, Route::Direct, Route::Main, Route::Late];
        let mut next =
            Self { routes: [(); 2].map(|()| routes[random.usize(..routes.len())]), ..self.clone() };
        for (at, mood) in next.moods.iter_mut().enumerate() {
            if self.routes[at] == Route::Absent {
                *mood = Mood::random(random);
            }
        }
        if random.bool() {
            next.operators = [(); 2].map(|()| random.usize(..3));
        }
        next
    }

    fn links(&self) -> String {
        let mut links = BTreeSet::from(["source -> sink".to_owned()]);
        for (sink, route) in SINKS.iter().zip(self.routes) {
            let (from, before): (&str, &[&str]) = match route {
                Route::Absent => continue,
                Route::Direct => ("source", &[]),
                Route::Main => ("main", &["source -> main"]),
                Route::Late => ("late", &["source -> main", "main -> late"]),
            };
            links.extend(before.iter().map(ToString::to_string));
            links.insert(format!("{from} -> {sink}"));
        }
        Vec::from_iter(links).join(", ")
    }

    /// Returns whether exactly the sinks of this version have got an event. `has` tells which of [`SINKS`] have got it.
    fn explains(&self, has: [bool; 2]) -> bool {
        (0..2).all(|at| {
            let is_linked = self.routes[at] != Route::Absent;
            let may_be_lost = is_linked && !self.moods[at].delivers();
            has[at] == is_linked || (may_be_lost && !has[at])
        })
    }
}

/// A run of the flow.
struct Run {
    random: Rng,
    /// `true` if operators buffer events, so that an event may reach a sink by other links than those at its arrival.
    buffers: bool,
    /// Scripts of `sink` and of [`SINKS`], which all of their instances share.
    scripts: [Shared<SinkScript>; 3],
    records: Shared<Vec<String>>,
    versions: Vec<Version>,
}

impl Run {
    fn operators(&self, count: usize) -> Vec<Box<dyn Operator>> {
        let operator = |_| -> Box<dyn Operator> {
            if self.buffers {
                Box::new(Fives::default())
            } else {
                Box::new(Records(self.records.clone()))
            }
        };
        (0..count).map(operator).collect()
    }

    /// Returns the flow of a version. The connector at `joining` of [`SINKS`] gets an instance.
    fn setup(&mut self, version: &Version, joining: [bool; 2]) -> Setup {
        let [main, late] = version.operators.map(|count| self.operators(count));
        let mut setup = Setup::of(&version.links()).operators("main", main).operators("late", late);
        for (at, name) in SINKS.into_iter().enumerate() {
            setup = setup.set(name, |it| {
                it.queue.max_events = NonZeroU64::new(1);
                match version.moods[at] {
                    Mood::Lost => it.reconnect = LONG,
                    Mood::Refused => it.reconnect = attempts(0),
                    _ => it.reconnect = AT_ONCE,
                }
            });
            if joining[at] {
                setup = setup.connect(name, &self.peer(at, version.moods[at]));
            }
        }
        setup
    }

    fn peer(&mut self, at: usize, mood: Mood) -> Arc<Peer> {
        let script = self.scripts[at + 1].clone();
        if mood == Mood::Silent {
            return Silent::new().peer();
        }
        lock(&script).next = match mood {
            Mood::Flaky => {
                let lost = || Err(Error::connection_lost("lost"));
                let answer = |_| if self.random.u8(..4) == 0 { lost() } else { Ok(Vec::new()) };
                (0..100).map(answer).collect()
            }
            _ => VecDeque::new(),
        };
        let peer = ScriptedSink(script).peer();
        let fails = || Err(Error::connection_lost("no"));
        match mood {
            Mood::Lost => lock(&peer.connects).extend([Ok(()), fails()]),
            Mood::Refused => lock(&peer.connects).push_back(fails()),
            Mood::Broken => lock(&peer.news).push_back(Err(Error::configuration("no"))),
            _ => {}
        }
        peer
    }

    /// Changes the flow to `next`. Returns whether its links have changed.
    async fn change(&mut self, handle: &FlowHandle, before: &Flow, next: &Version) -> Option<Flow> {
        let last = self.versions.last()?;
        let joining =
            [0, 1].map(|at| last.routes[at] == Route::Absent && next.routes[at] != Route::Absent);
        let trial = self.setup(next, joining).doubles;
        let Setup { flow, doubles, .. } = self.setup(next, joining);
        if handle.link_obstacle(&flow, before, &doubles).is_some() {
            return None;
        }
        // A constructor has failed.
        let mut relinking = handle.relinking((&flow, before), (&trial, &doubles), &|| true).ok()?;
        relinking.start();
        until(&handle.control, || relinking.are_tried() || !relinking.failures().is_empty()).await;
        let patience = if self.random.u8(..4) == 0 { self.random.usize(..3) } else { usize::MAX };
        let exchanges = relinking.take_exchanges();
        let exchanged = async {
            exchange(exchanges).await;
            true
        };
        let interrupted = async {
            for _ in 0..patience {
                yield_now().await;
            }
            false
        };
        if !relinking.failures().is_empty() || !first(exchanged, interrupted).await {
            let withdrawn = relinking.withdraw();
            until(&handle.control, || withdrawn.have_ended()).await;
            return None;
        }
        self.versions.push(next.clone());
        let left = remove(handle, relinking).await;
        assert!(left.iter().all(|it| it.has_ended), "{left:?}");
        Some(flow)
    }

    async fn changes(&mut self, handle: &FlowHandle, mut running: Flow) {
        for _ in 0..CHANGES {
            let millis = self.random.u64(..200);
            handle.control.clock().sleep(Duration::from_millis(millis)).await;
            let sink = ["sink", "peer", "letters"][self.random.usize(..3)];
            match self.random.u8(..6) {
                0 => drop(handle.restart(sink)),
                1 => drop(handle.pause(sink)),
                2 | 3 => drop(handle.resume(sink)),
                _ => {}
            }
            let next = self.versions.last().unwrap().successor(&mut self.random);
            if let Some(flow) = self.change(handle, &running, &next).await {
                running = flow;
            }
        }
        // Sinks that deliver nothing would keep the flow from ending.
        for _ in 0..1_000 {
            let next = Version { operators: [0; 2], ..Version::FIRST };
            if self.versions.last().unwrap().routes == next.routes
                || self.change(handle, &running, &next).await.is_some()
            {
                break;
            }
        }
        handle.resume("sink");
    }

    /// Checks what the sinks have delivered of `count` events.
    fn check(&self, count: u64) {
        let delivered = self.scripts.clone().map(|script| -> Vec<u64> {
            lock(&script).delivered.iter().flatten().map(|it| it.parse().unwrap()).collect()
        });
        assert_eq!(delivered[0], (0..count).collect::<Vec<_>>(), "the sink that stays");
        if self.buffers {
            // Events that an operator has buffered may leave by links that did not exist when they arrived.
            assert!(delivered.iter().flatten().all(|event| *event < count));
            return;
        }
        for (sink, of) in SINKS.iter().zip(&delivered[1..]) {
            assert!(of.is_sorted_by(|one, next| one < next), "`{sink}` has {of:?}");
        }
        let [_, peer, letters] = delivered.map(BTreeSet::from_iter);
        // Each event has to be explained by the version of the event before it, or by a later one.
        let mut versions = self.versions.iter().peekable();
        for event in 0..count {
            let has = [peer.contains(&event), letters.contains(&event)];
            while versions.next_if(|it| !it.explains(has)).is_some() {}
            assert!(versions.peek().is_some(), "event {event} is at {has:?} of {SINKS:?}");
        }
    }
}

/// Runs a flow with random changes. Returns the number of changes that took effect.
fn run(seed: u64) -> usize {
    let mut random = Rng::with_seed(seed);
    let drip = Drip {
        random: random.fork(),
        next: Shared::default(),
        is_over: Arc::default(),
        reports: Reports::default(),
    };
    let mut run = Run {
        buffers: random.bool(),
        random,
        scripts: [(); 3].map(|()| SinkScript::of([])),
        records: Arc::new(Mutex::default()),
        versions: vec![Version::FIRST],
    };
    let given = drip.clone();
    let source = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(given.clone())))));
    let sink = ScriptedSink(run.scripts[0].clone()).peer();
    let setup = run.setup(&Version::FIRST, [false; 2]);
    let setup = setup.connect("source", &source).connect("sink", &sink);
    let flow = setup.flow.clone();
    let report = setup.plan().run_beside(async |handle| {
        run.changes(&handle, flow).await;
        drip.is_over.store(true, Ordering::Relaxed);
    });
    assert!(report.failure.is_none(), "{:?}", report.failure);
    settled(&report.components);
    assert_eq!(source.count("connect"), 1, "the source keeps its connection");
    let reports = sorted(&drip.reports);
    assert_eq!(reports, pulls(reports.len() as u64, true), "each pull is acknowledged once");
    run.check(*lock(&drip.next));
    run.versions.len() - 1
}

#[test]
fn each_event_reaches_the_sinks_of_one_version() {
    let changes: usize = (0..SEEDS)
        .map(|seed| {
            eprintln!("seed {seed}");
            run(seed)
        })
        .sum();
    assert!(changes > 5 * usize::try_from(SEEDS).unwrap(), "{changes} changes took effect");
}
