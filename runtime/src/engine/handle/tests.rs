//! The status of a connector as operators see it.

use std::time::Duration;

use tremor_pdk::Error;

use super::{ConnectorHandle, Retried, State};

fn doing(handle: &ConnectorHandle) -> Option<String> {
    handle.held_up(false).map(|it| it.doing)
}

#[test]
fn unconnected_sink_holds_up_its_flow_while_events_wait() {
    let handle = ConnectorHandle::new("output".into(), None);
    handle.enter(State::Connecting);
    handle.note(&Error::connection_refused("nobody there"));
    assert_eq!(doing(&handle), None, "nothing waits for it");
    handle.set_in_flight(3);
    let told = doing(&handle).unwrap();
    assert!(told.starts_with("connecting for "), "{told}");
    assert!(told.contains("3 events are not delivered; the last attempt failed"), "{told}");
    assert!(told.contains("nobody there"), "{told}");
    handle.enter(State::Running);
    let told = doing(&handle).unwrap();
    assert!(!told.contains("nobody there"), "it has connected since: {told}");
    handle.enter(State::Failed);
    assert_eq!(doing(&handle), None, "its events have failed");
}

#[test]
fn connector_drains_once_its_source_brings_nothing_more() {
    let handle = ConnectorHandle::new("both".into(), None);
    let state = || handle.status().state;
    handle.drains();
    assert_eq!(state(), State::Connecting, "nothing flows without a connection");
    handle.enter(State::Running);
    assert_eq!(state(), State::Draining);
    let since = handle.status().since;
    handle.enter(State::Paused);
    assert_eq!((state(), handle.status().since), (State::Draining, since));
    handle.enter(State::Restarting);
    assert_eq!((state(), handle.status().restarts), (State::Restarting, 1));
}

#[test]
fn what_went_wrong_last_is_known_after_it_is_mended() {
    let handle = ConnectorHandle::new("output".into(), None);
    handle.set_in_flight(2);
    handle.enter(State::Running);
    handle.retry(Retried::Deliver, &Error::full("no room"), Duration::ZERO);
    let told = doing(&handle).unwrap();
    assert!(told.starts_with("waiting to deliver for "), "{told}");
    assert_eq!(handle.status().state, State::Retrying);
    handle.recover(Retried::Deliver);
    assert_eq!(handle.status().state, State::Running);
    assert!(doing(&handle).unwrap().starts_with("running for "));
    assert!(handle.status().error.unwrap().contains("no room"));
}

#[test]
fn what_has_failed_for_good_stays_so_whatever_it_still_does() {
    let handle = ConnectorHandle::new("output".into(), None);
    handle.enter(State::Running);
    handle.fail(&Error::internal("broken"));
    for state in State::ALL {
        assert_eq!(handle.enter(state), State::Failed);
    }
    assert!(handle.status().error.unwrap().contains("broken"));
}
