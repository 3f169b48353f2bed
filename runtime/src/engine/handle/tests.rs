//! Tests of the status of a connector.

use std::time::Duration;

use tremor_pdk::Error;

use super::{ConnectorHandle, Retried, State};

fn doing(handle: &ConnectorHandle) -> Option<String> {
    handle.unfinished(false).map(|it| it.doing)
}

#[test]
fn unconnected_sink_is_unfinished_while_events_wait() {
    let handle = ConnectorHandle::new("output".into(), None);
    handle.enter(State::Connecting);
    handle.note(&Error::connection_refused("nobody there"));
    assert_eq!(doing(&handle), None, "no event waits for the sink");
    handle.set_in_flight(3);
    let text = doing(&handle).unwrap();
    assert!(text.starts_with("connecting for "), "{text}");
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
    let handle = ConnectorHandle::new("both".into(), None);
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
    let handle = ConnectorHandle::new("output".into(), None);
    handle.set_in_flight(2);
    handle.enter(State::Running);
    handle.retry(Retried::Deliver, &Error::full("no room"), Duration::ZERO);
    let text = doing(&handle).unwrap();
    assert!(text.starts_with("waiting to deliver for "), "{text}");
    assert_eq!(handle.status().state, State::Retrying);
    handle.recover(Retried::Deliver);
    assert_eq!(handle.status().state, State::Running);
    assert!(doing(&handle).unwrap().starts_with("running for "));
    assert!(handle.status().error.unwrap().contains("no room"));
}

#[test]
fn failed_connector_stays_failed() {
    let handle = ConnectorHandle::new("output".into(), None);
    handle.enter(State::Running);
    handle.fail(&Error::internal("broken"));
    for state in State::ALL {
        assert_eq!(handle.enter(state), State::Failed);
    }
    assert!(handle.status().error.unwrap().contains("broken"));
}
