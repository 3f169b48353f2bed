//! Tests of the status of a connector.

use std::time::Duration;

use tremor_pdk::Error;

use super::{ConnectorHandle, Retried, State};
use crate::clock::Clock;

fn doing(handle: &ConnectorHandle) -> Option<String> {
    handle.unfinished(false).map(|it| it.doing)
}

#[test]
fn unconnected_sink_is_unfinished_while_events_wait() {
    let clock = Clock::simulated(0);
    let handle = ConnectorHandle::new("output".into(), None, clock.clone());
    handle.enter(State::Connecting);
    clock.advance(Duration::from_millis(1_500));
    handle.note(&Error::connection_refused("nobody there"));
    assert_eq!(doing(&handle), None, "no event waits for the sink");
    handle.set_in_flight(3);
    let text = doing(&handle).unwrap();
    assert!(text.starts_with("connecting for 1.5 s, "), "{text}");
    assert!(text.contains("3 events are not delivered; the last attempt failed"), "{text}");
    assert!(text.contains("nobody there"), "{text}");
    handle.enter(State::Running);
    let text = doing(&handle).unwrap();
    assert!(!text.contains("nobody there"), "the connector has connected since: {text}");
    handle.enter(State::Failed);
    assert_eq!(doing(&handle), None, "the events of the connector have failed");
}

#[test]
fn connector_drains_once_its_source_reads_nothing_more() {
    let handle = ConnectorHandle::new("both".into(), None, Clock::simulated(0));
    let state = || handle.status().state;
    handle.drains();
    assert_eq!(state(), State::Connecting, "a connector that is not connected stays in its state");
    handle.enter(State::Running);
    assert_eq!(state(), State::Draining);
    let since = handle.status().since;
    handle.enter(State::Paused);
    assert_eq!((state(), handle.status().since), (State::Draining, since));
    handle.enter(State::Restarting);
    assert_eq!((state(), handle.status().restarts), (State::Restarting, 1));
}

#[test]
fn last_error_is_kept_after_recovery() {
    let clock = Clock::simulated(0);
    let handle = ConnectorHandle::new("output".into(), None, clock.clone());
    handle.set_in_flight(2);
    handle.enter(State::Running);
    clock.advance(Duration::from_secs(3));
    handle.retry(Retried::Deliver, &Error::full("no room"), Duration::ZERO);
    clock.advance(Duration::from_secs(2));
    let text = doing(&handle).unwrap();
    assert!(text.starts_with("waiting to deliver for 2.0 s, "), "{text}");
    assert_eq!(handle.status().state, State::Retrying);
    handle.recover(Retried::Deliver);
    assert_eq!(handle.status().state, State::Running);
    assert!(doing(&handle).unwrap().starts_with("running for 5.0 s, "));
    assert!(handle.status().error.unwrap().contains("no room"));
}

#[test]
fn failed_connector_stays_failed() {
    let handle = ConnectorHandle::new("output".into(), None, Clock::simulated(0));
    handle.enter(State::Running);
    handle.fail(&Error::internal("broken"));
    for state in State::ALL {
        assert_eq!(handle.enter(state), State::Failed);
    }
    assert!(handle.status().error.unwrap().contains("broken"));
}

#[test]
fn problems_of_an_instance_are_shown_until_they_are_cleared() {
    let clock = Clock::simulated(0);
    let handle = ConnectorHandle::new("input".into(), None, clock.clone());
    let instance = handle.next_instance();
    handle.enter(State::Running);
    clock.advance(Duration::from_secs(1));
    let since = clock.now();
    instance.set_problem("files", Some(Error::configuration("cannot read `a`")), since);
    clock.advance(Duration::from_secs(1));
    // If another file cannot be read, or fewer files cannot be read, that is not another error.
    let error = "cannot read `a`; 1 more cannot be read: `b`";
    instance.set_problem("files", Some(Error::configuration(error)), clock.now());
    instance.set_problem("files", Some(Error::configuration("cannot read `a`")), clock.now());
    instance.set_problem("checkpoint", Some(Error::full("no space")), clock.now());
    let status = handle.status();
    assert_eq!((status.state, status.since), (State::Retrying, since));
    assert_eq!(status.error.as_deref(), Some("no space; cannot read `a`"));
    instance.set_problem("files", None, clock.now());
    let status = handle.status();
    assert_eq!((status.state, status.since), (State::Retrying, clock.now()));
    instance.set_problem("checkpoint", None, clock.now());
    assert_eq!(handle.status().state, State::Running);
    assert_eq!(handle.status().error.as_deref(), Some("no space"), "the last error");
    instance.set_problem("checkpoint", Some(Error::full("no space")), clock.now());
    handle.next_instance();
    let status = handle.status();
    assert_eq!(status.state, State::Running, "the instance has ended");
    assert_eq!(status.errors.into_iter().collect::<Vec<_>>(), [("configuration", 1), ("full", 2)]);
}
