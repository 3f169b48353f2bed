//! Connectors that fail and are restarted.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tremor_pdk::{Batch, Error, ErrorPolicy, Result};

use super::{
    AT_ONCE, LONG, Setup,
    doubles::{Gated, Pulls, Reports, ScriptedSink, SinkScript},
    peer::{Peer, Script},
    pulls, settled, sorted,
};
use crate::{
    dynamic::DynSource,
    engine::{
        control::Phase,
        handle::{
            connection::{Connection, Replaced},
            status::State,
        },
        tracking::stats::Counts,
    },
    executor,
};

fn panicked<T>() -> Result<T> {
    Err(Error::panicked("oh"))
}

fn broken<T>() -> Result<T> {
    Err(Error::internal("broken"))
}

/// Runs a connector that is only a source, and a scripted sink that receives its events.
fn run(peer: &Arc<Peer>, restarts: u64) -> Counts {
    let setup = peer.source(AT_ONCE).set("peer", |it| it.restart.attempts = Some(restarts));
    settled(&setup.plan().run_with(async {}).components)
}

fn failure(peer: &Peer) -> String {
    peer.control.failure().expect("the flow has failed").error.to_string()
}

#[test]
fn error_without_panic_keeps_the_instance_and_is_a_restart() {
    let peer = Script::of([Ok("1"), broken(), Ok("2"), broken(), broken()]).peer();
    assert_eq!(run(&peer, 2).events_out, 2);
    assert_eq!((peer.count("new"), peer.count("connect")), (1, 3));
    assert!(failure(&peer).ends_with("failed again after 2 restarts within 60s: broken"));
}

#[test]
fn connector_with_a_permanent_error_is_not_restarted() {
    let peer = Script::of([Err(Error::authentication("who?"))]).peer();
    run(&peer, 2);
    assert_eq!(peer.count("new"), 1);
    assert!(failure(&peer).ends_with("who?"));
}

#[test]
fn failed_constructor_is_final_unless_an_instance_has_worked() {
    for kind in [panicked, broken] {
        let peer = Script::of([Ok("1")]).peer();
        *peer.news.lock().unwrap() = [kind()].into();
        run(&peer, 5);
        assert_eq!(peer.count("new"), 1);
        peer.control.failure().expect("the flow has failed");

        let peer = Script::of([Ok("1"), panicked(), Ok("2")]).peer();
        *peer.news.lock().unwrap() = [Ok(()), kind(), kind()].into();
        assert_eq!(run(&peer, 5).events_out, 2);
        assert_eq!(peer.count("new"), 4);
        assert!(peer.control.failure().is_none());
    }
}

#[test]
fn connector_is_restarting_while_it_waits_for_a_restart() {
    let peer = Script::of([panicked()]).peer();
    peer.source(LONG).plan().run_with(async {
        while peer.control.connector("peer").unwrap().status().state != State::Restarting {
            executor::yield_now().await;
        }
        peer.control.advance(Phase::Stopped);
    });
    assert_eq!(peer.count("new"), 1);
    assert!(failure(&peer).ends_with("oh"), "the stopped flow has the error of the connector");
}

#[test]
fn deliveries_of_a_sink_that_panicked_are_repeated_in_order() {
    let script = SinkScript::of([Ok(Vec::new()), panicked(), panicked()]);
    let outcome = Setup::default().run(Pulls::numbers(4), &script);
    let numbers: Vec<String> = (0..12).map(|number| number.to_string()).collect();
    assert_eq!(outcome.messages(), numbers);
    assert_eq!(outcome.reports, pulls(4, true));
    assert_eq!(outcome.counts.events_out, 12);
}

/// A source that panics after its last message.
struct Panics(Pulls);

impl DynSource for Panics {
    fn poll_pull(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<Result<tremor_pdk::Pull>> {
        if self.0.left.is_empty() {
            return Poll::Ready(panicked());
        }
        self.0.poll_pull(context, batch)
    }

    fn give_up(&mut self, batch: &mut Batch) {
        self.0.give_up(batch);
    }

    fn acks(&mut self) -> Result<Option<Box<dyn tremor_pdk::Acks>>> {
        self.0.acks()
    }
}

#[test]
fn restarted_source_gets_no_reports_of_earlier_pulls() {
    let (first, second) = (Pulls::numbers(3), Pulls::numbers(1));
    let reports: [Reports; 2] = [&first, &second].map(|pulls| pulls.reports.clone());
    let is_open = Arc::<AtomicBool>::default();
    let (first, second, own) = (Mutex::new(Some(first)), second.clone(), is_open.clone());
    let peer = Arc::new(Peer::of_source(Box::new(move |_| {
        if let Some(first) = first.lock().map_err(Error::internal)?.take() {
            return Ok(Box::new(Panics(first)));
        }
        // The events of the first instance are delivered while the second instance runs.
        own.store(true, Ordering::Relaxed);
        Ok(Box::new(second.clone()))
    })));
    let script = SinkScript::of([]);
    let gated = Gated { scripted: ScriptedSink(script.clone()), is_open };
    let sink = Arc::new(Peer::of_sink(Box::new(move |_| Ok(Box::new(gated.clone())))));
    let report = peer.source(AT_ONCE).connect("sink", &sink).plan().run_with(async {});
    assert_eq!(sorted(&reports[0]), pulls(3, false), "no pull had ended when the source failed");
    assert_eq!(
        sorted(&reports[1]),
        pulls(1, true),
        "the second instance gets only the report of its own pull"
    );
    assert_eq!(script.lock().unwrap().delivered.concat().len(), 12, "no event was lost");
    assert_eq!(settled(&report.components).events_out, 12);
}

#[test]
fn replaced_instance_counts_as_a_restart() {
    for attempts in [0, 1] {
        let peer = Arc::new(Peer::of_source(Box::new(|connection: &Arc<Connection>| {
            let error = Error::timeout("slow").with_policy(ErrorPolicy::RESTART);
            connection.replace(Replaced::Because(error));
            Ok(Box::new(Pulls { until: Some(Arc::default()), ..Pulls::numbers(0) }))
        })));
        run(&peer, attempts);
        assert!(failure(&peer).ends_with("slow"), "{}", failure(&peer));
        assert_eq!(peer.count("new") as u64, attempts + 1);
        assert_eq!(peer.count("close"), 0, "a failed instance is not closed");
    }
}

#[test]
fn restart_that_is_requested_before_the_start_is_performed() {
    let peer = Script::of([Ok("1"), Ok("2")]).peer();
    let planned = peer.source(LONG).plan();
    let handle = peer.control.connector("peer").unwrap();
    handle.restart();
    planned.run_with(async {});
    assert_eq!(handle.status().restarts, 1);
    assert_eq!((peer.count("new"), peer.count("close")), (2, 2), "both instances were closed");
}

/// Runs a source, and requests a restart once the connector is in `state` and has recorded an error.
fn asked_in(state: State, peer: &Arc<Peer>) {
    peer.source(LONG).plan().run_with(async {
        let handle = peer.control.connector("peer").unwrap();
        while handle.status().state != state || handle.status().error.is_none() {
            executor::yield_now().await;
        }
        handle.restart();
    });
    assert!(peer.control.failure().is_none(), "{:?}", peer.control.failure());
}

#[test]
fn requested_restart_ends_waits() {
    let peer = Script::of([panicked(), Ok("1")]).peer();
    asked_in(State::Restarting, &peer);
    assert_eq!(peer.count("new"), 2);

    let peer = Script::of([Ok("1")]).peer();
    *peer.connects.lock().unwrap() = [Err(Error::connection_refused("no"))].into();
    asked_in(State::Connecting, &peer);
    assert_eq!((peer.count("new"), peer.count("close")), (2, 2), "both instances were closed");
}
