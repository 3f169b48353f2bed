//! Connectors that fail, and are made anew.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tremor_pdk::{Batch, Error, ErrorPolicy, Result};

use super::{
    AT_ONCE, Harness, Setup, both,
    doubles::{Heard, Held, Pulls, Takes, Taking},
    peer::{Peer, Script},
    pulls, settled, sorted,
};
use crate::{
    dynamic::DynSource,
    engine::{
        account::stats::Counts,
        connector::ConnectorTask,
        control::Phase,
        handle::{
            connection::{Connection, End, Replaced},
            status::State,
        },
        retry::backoff::{Policy, Restarts},
    },
    executor::{self, block_on},
    flow,
};

fn panicked<T>() -> Result<T> {
    Err(Error::panicked("oh"))
}

fn broken<T>() -> Result<T> {
    Err(Error::internal("broken"))
}

fn restarts(attempts: u64) -> Restarts {
    Restarts::of(flow::Restart { attempts: Some(attempts), within: None }, AT_ONCE)
}

/// Runs a connector that is only a source; what it sends, a sink of doubles takes.
fn run(peer: &Arc<Peer>, restarts: Restarts) -> Counts {
    let Harness { source, mut sink, books, .. } = Setup::default().harness();
    let connector = ConnectorTask { restarts, ..peer.task(Some(source), None, AT_ONCE) };
    block_on(both(connector.run(), async {
        sink.run(Box::new(Taking(Takes::of([]))), &Arc::default()).await;
    }));
    settled(&books)
}

fn failure(peer: &Peer) -> String {
    peer.control.failure().expect("it has failed").error.to_string()
}

#[test]
fn a_connector_that_panics_is_made_anew_as_often_as_its_flow_says_and_then_has_failed() {
    for (attempts, says) in [(0, "oh"), (2, "failed again after 2 restarts within 60s: oh")] {
        let peer = Script::of((0..100).map(|_| panicked())).peer();
        run(&peer, restarts(attempts));
        assert_eq!(peer.count("new") as u64, attempts + 1);
        assert!(failure(&peer).ends_with(says), "{}", failure(&peer));
        let status = peer.control.connectors().remove(0);
        assert_eq!((status.state, status.restarts), (State::Failed, attempts));
        assert!(status.error.unwrap().ends_with(says));
    }
}

#[test]
fn an_instance_that_panics_between_its_events_is_made_anew_and_no_event_is_lost() {
    let peer = Script::of([Ok("1"), panicked(), Ok("2"), panicked(), Ok("3")]).peer();
    assert_eq!(run(&peer, restarts(2)).events_out, 3);
    assert!(peer.control.failure().is_none(), "{:?}", peer.control.failure());
    assert_eq!((peer.count("new"), peer.count("connect")), (3, 3));
}

#[test]
fn an_instance_that_fails_in_order_keeps_its_state_and_that_is_a_restart_too() {
    let peer = Script::of([Ok("1"), broken(), Ok("2"), broken(), broken()]).peer();
    assert_eq!(run(&peer, restarts(2)).events_out, 2);
    assert_eq!((peer.count("new"), peer.count("connect")), (1, 3));
    assert!(failure(&peer).ends_with("failed again after 2 restarts within 60s: broken"));
}

#[test]
fn what_time_does_not_mend_is_not_restarted() {
    let peer = Script::of([Err(Error::authentication("who?"))]).peer();
    run(&peer, restarts(2));
    assert_eq!(peer.count("new"), 1);
    assert!(failure(&peer).ends_with("who?"));
}

#[test]
fn a_constructor_that_fails_is_final_unless_an_instance_has_been_of_use() {
    for kind in [panicked, broken] {
        let peer = Script::of([Ok("1")]).peer();
        *peer.news.lock().unwrap() = [kind()].into();
        run(&peer, restarts(5));
        assert_eq!(peer.count("new"), 1);
        peer.control.failure().expect("it has failed");

        let peer = Script::of([Ok("1"), panicked(), Ok("2")]).peer();
        *peer.news.lock().unwrap() = [Ok(()), kind(), kind()].into();
        assert_eq!(run(&peer, restarts(5)).events_out, 2);
        assert_eq!(peer.count("new"), 4);
        assert!(peer.control.failure().is_none());
    }
}

#[test]
fn a_connector_restarts_for_as_long_as_it_waits_before_that() {
    let peer = Script::of([panicked()]).peer();
    let Harness { source, .. } = Setup::default().harness();
    let restarts = Restarts::of(flow::Restart::default(), LONG);
    let connector = ConnectorTask { restarts, ..peer.task(Some(source), None, AT_ONCE) };
    block_on(both(connector.run(), async {
        while peer.control.connectors()[0].state != State::Restarting {
            executor::yield_now().await;
        }
        peer.control.advance(Phase::Stopped);
    }));
    assert_eq!(peer.count("new"), 1);
    assert!(failure(&peer).ends_with("oh"), "a flow that was cut off says why");
}

#[test]
fn what_a_sink_had_when_it_panicked_the_next_instance_delivers_in_order() {
    let Harness { mut source, sink, books, .. } = Setup::default().harness();
    let takes = Takes::of([Ok(Vec::new()), panicked(), panicked()]);
    let taking = Taking(takes.clone());
    let peer = Arc::new(Peer::new(
        Box::new(|_| Err(Error::internal("no source"))),
        Box::new(move |_| Ok(Box::new(taking.clone()))),
    ));
    let connector = peer.task(None, Some(sink), AT_ONCE);
    let double = Pulls::numbers(4);
    let heard = double.heard.clone();
    block_on(both(connector.run(), async {
        let end = source.run(Box::new(double), &Arc::<Connection>::default()).await;
        assert!(matches!(end, End::Finished), "{end:?}");
        // Its sender goes with it.
        drop(source);
    }));
    let numbers: Vec<String> = (0..12).map(|number| number.to_string()).collect();
    assert_eq!(takes.lock().unwrap().delivered.concat(), numbers);
    assert_eq!(sorted(&heard), pulls(4, true));
    assert_eq!((settled(&books).events_out, peer.count("new")), (12, 3));
}

/// A source that panics once it has brought everything.
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
fn a_source_hears_of_no_pull_of_the_instance_before_it() {
    let Harness { source, mut sink, books, .. } = Setup::default().harness();
    let (first, second) = (Pulls::numbers(3), Pulls::numbers(1));
    let heard: [Heard; 2] = [&first, &second].map(|pulls| pulls.heard.clone());
    let may = Arc::<AtomicBool>::default();
    let (first, second, own) = (Mutex::new(Some(first)), second.clone(), may.clone());
    let peer = Arc::new(Peer::of_source(Box::new(move |_| {
        if let Some(first) = first.lock().map_err(Error::internal)?.take() {
            return Ok(Box::new(Panics(first)));
        }
        // What the first has brought ends while the second runs.
        own.store(true, Ordering::Relaxed);
        Ok(Box::new(second.clone()))
    })));
    let connector = peer.task(Some(source), None, AT_ONCE);
    let takes = Takes::of([]);
    let held = Held { taking: Taking(takes.clone()), may };
    block_on(both(connector.run(), async {
        sink.run(Box::new(held), &Arc::default()).await;
    }));
    assert_eq!(sorted(&heard[0]), pulls(3, false), "they had not ended when it failed");
    assert_eq!(sorted(&heard[1]), pulls(1, true), "its own, once");
    assert_eq!(takes.lock().unwrap().delivered.concat().len(), 12, "nothing was lost");
    assert_eq!(settled(&books).events_out, 12);
}

#[test]
fn an_instance_that_did_not_do_as_it_should_is_replaced_and_that_is_a_restart() {
    for attempts in [0, 1] {
        let peer = Arc::new(Peer::of_source(Box::new(|connection: &Arc<Connection>| {
            let error = Error::timeout("slow").with_policy(ErrorPolicy::RESTART);
            connection.replace(Replaced::Because(error));
            Ok(Box::new(Pulls { until: Some(Arc::default()), ..Pulls::numbers(0) }))
        })));
        run(&peer, restarts(attempts));
        assert!(failure(&peer).ends_with("slow"), "{}", failure(&peer));
        assert_eq!(peer.count("new") as u64, attempts + 1);
        assert_eq!(peer.count("close"), 0, "what is not well is not asked to stop");
    }
}

/// Runs a source, and restarts it from outside when it is in this state.
fn asked_in(state: State, peer: &Arc<Peer>, reconnect: Policy, restarts: Restarts) {
    let Harness { source, mut sink, .. } = Setup::default().harness();
    let connector = ConnectorTask { restarts, ..peer.task(Some(source), None, reconnect) };
    block_on(both(connector.run(), async {
        let asks = async {
            let handle = peer.control.connector("peer").unwrap();
            while handle.status().state != state || handle.status().error.is_none() {
                executor::yield_now().await;
            }
            handle.restart();
        };
        let taking = async {
            sink.run(Box::new(Taking(Takes::of([]))), &Arc::default()).await;
        };
        both(asks, taking).await;
    }));
    assert!(peer.control.failure().is_none(), "{:?}", peer.control.failure());
}

/// Any time up to these waits is long.
const LONG: Policy = Policy { first: Duration::from_secs(1 << 40), ..AT_ONCE };

#[test]
fn a_restart_that_is_asked_for_waits_for_nothing() {
    let peer = Script::of([panicked(), Ok("1")]).peer();
    let restarts = Restarts::of(flow::Restart::default(), LONG);
    asked_in(State::Restarting, &peer, AT_ONCE, restarts);
    assert_eq!(peer.count("new"), 2);

    let peer = Script::of([Ok("1")]).peer();
    *peer.connects.lock().unwrap() = [Err(Error::connection_refused("no"))].into();
    asked_in(State::Connecting, &peer, LONG, self::restarts(0));
    assert_eq!((peer.count("new"), peer.count("close")), (2, 2), "both have stopped in order");
}
