//! The status of a connector as operators see it.

use std::time::Duration;

use tremor_pdk::Error;

use super::{Retried, Standing, State};

fn doing(standing: &Standing) -> Option<String> {
    standing.held_up(false).map(|it| it.doing)
}

#[test]
fn a_sink_that_cannot_connect_holds_up_its_flow_while_events_wait_for_it() {
    let standing = Standing::new("output".into(), None);
    standing.enter(State::Connecting);
    standing.note(&Error::connection_refused("nobody there"));
    assert_eq!(doing(&standing), None, "nothing waits for it");
    standing.set_in_flight(3);
    let told = doing(&standing).unwrap();
    assert!(told.starts_with("connecting for "), "{told}");
    assert!(told.contains("3 events are not delivered; the last attempt failed"), "{told}");
    assert!(told.contains("nobody there"), "{told}");
    standing.enter(State::Running);
    let told = doing(&standing).unwrap();
    assert!(!told.contains("nobody there"), "it has connected since: {told}");
    standing.enter(State::Failed);
    assert_eq!(doing(&standing), None, "its events have failed");
}

#[test]
fn a_connector_whose_source_brings_nothing_more_drains_wherever_events_flow() {
    let standing = Standing::new("both".into(), None);
    let state = || standing.status().state;
    standing.drains();
    assert_eq!(state(), State::Connecting, "nothing flows without a connection");
    standing.enter(State::Running);
    assert_eq!(state(), State::Draining);
    let since = standing.status().since;
    standing.enter(State::Paused);
    assert_eq!((state(), standing.status().since), (State::Draining, since));
    standing.enter(State::Restarting);
    assert_eq!((state(), standing.status().restarts), (State::Restarting, 1));
}

#[test]
fn what_went_wrong_last_is_known_after_it_is_mended() {
    let standing = Standing::new("output".into(), None);
    standing.set_in_flight(2);
    standing.enter(State::Running);
    standing.retry(Retried::Deliver, &Error::full("no room"), Duration::ZERO);
    let told = doing(&standing).unwrap();
    assert!(told.starts_with("waiting to deliver for "), "{told}");
    assert_eq!(standing.status().state, State::Retrying);
    standing.recover(Retried::Deliver);
    assert_eq!(standing.status().state, State::Running);
    assert!(doing(&standing).unwrap().starts_with("running for "));
    assert!(standing.status().error.unwrap().contains("no room"));
}

#[test]
fn what_has_failed_for_good_stays_so_whatever_it_still_does() {
    let standing = Standing::new("output".into(), None);
    standing.enter(State::Running);
    standing.fail(&Error::internal("broken"));
    for state in State::ALL {
        assert_eq!(standing.enter(state), State::Failed);
    }
    assert!(standing.status().error.unwrap().contains("broken"));
}
