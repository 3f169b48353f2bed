//! Tests of requests that wait, and of the status.

use std::time::{Duration, Instant};

use super::{Action, Outcome, Progress, ReloadResult, Reloads, Step, WAITING_AT_MOST};
use crate::{clock::Clock, executor};

const RELOAD: Action = Action::Reload { confirm: None };

fn served() -> Reloads {
    let reloads = Reloads::default();
    reloads.serve();
    reloads
}

fn outcome(result: ReloadResult) -> Outcome {
    Outcome { result, flows: Vec::new(), errors: Vec::new(), confirm_seconds: None }
}

#[test]
fn request_during_the_start_is_served_after_it() {
    let reloads = Reloads::default();
    assert!(reloads.request(RELOAD).is_none(), "a run without files never serves requests");
    reloads.expect();
    let reply = reloads.request(RELOAD).unwrap();
    reloads.serve();
    let requests = reloads.next(Duration::MAX, &Clock::simulated(0)).unwrap();
    requests.iter().for_each(|it| it.answer(&Ok(outcome(ReloadResult::Unchanged))));
    assert_eq!(reply.try_recv(), Ok(Ok(outcome(ReloadResult::Unchanged))));
}

/// Returns the requests that wait.
fn waiting(reloads: &Reloads) -> Vec<Action> {
    let requests = reloads.next(Duration::MAX, &Clock::simulated(0)).unwrap();
    requests.iter().map(|it| it.action).collect()
}

#[test]
fn requests_that_wait_are_counted_and_served_in_order() {
    let reloads = served();
    let replies = [RELOAD, Action::Keep, Action::Plan].map(|it| reloads.request(it).unwrap());
    assert_eq!(reloads.status().waiting, 3);
    assert_eq!(waiting(&reloads), [RELOAD, Action::Keep, Action::Plan]);
    assert_eq!(reloads.status().waiting, 0);
    drop(replies);
}

/// Signals are such requests.
#[test]
fn equal_requests_without_client_become_one() {
    let reloads = served();
    let confirmed = Action::Reload { confirm: Some(Duration::from_secs(1)) };
    for action in [RELOAD, RELOAD, confirmed, confirmed, RELOAD] {
        drop(reloads.request(action));
    }
    let client = reloads.request(RELOAD);
    drop(reloads.request(RELOAD));
    assert_eq!(waiting(&reloads), [RELOAD, confirmed, RELOAD, RELOAD]);
    drop(client);
}

#[test]
fn number_of_requests_that_wait_is_limited() {
    let reloads = served();
    let replies: Vec<_> = (0..=WAITING_AT_MOST).map(|_| reloads.request(RELOAD)).collect();
    assert!(replies[WAITING_AT_MOST - 1].is_some() && replies[WAITING_AT_MOST].is_none());
    assert_eq!(reloads.status().waiting, WAITING_AT_MOST);
}

#[test]
fn wait_for_requests_ends_after_its_time() {
    let (reloads, clock) = (served(), Clock::simulated(0));
    // A request that was served leaves no message behind that would end the next wait.
    drop(reloads.request(RELOAD));
    assert_eq!(waiting(&reloads).len(), 1);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| reloads.next(Duration::from_secs(1), &clock));
        while clock.next_timer() != Some(Duration::from_secs(1)) {
            std::thread::yield_now();
        }
        assert!(!waits.is_finished());
        clock.advance(Duration::from_secs(1));
        assert!(waits.join().unwrap().unwrap().is_empty());
        reloads.end();
        assert!(reloads.next(Duration::MAX, &clock).is_none() && reloads.request(RELOAD).is_none());
    });
}

#[test]
fn end_of_the_run_interrupts_waits() {
    let run = crate::run::RunHandle::default();
    run.drain();
    executor::block_on(run.reloads().interrupted());
}

#[test]
fn progress_shows_the_step_and_its_begin() {
    let (reloads, begin) = (served(), Instant::now());
    let at = |s| begin + Duration::from_secs(s);
    let progress = || reloads.status().in_progress;
    reloads.enter(Step::Reading, None, at(0));
    for second in 1..4 {
        reloads.enter(Step::Draining, Some("a"), at(second));
    }
    let (step, flow) = (Step::Draining, Some("a".to_owned()));
    let expected = Progress { since: at(0), step, flow, step_since: at(1) };
    assert_eq!(progress(), Some(expected));
    reloads.enter(Step::Draining, Some("b"), at(4));
    assert_eq!(progress().map(|it| it.step_since), Some(at(4)));
    reloads.record(&outcome(ReloadResult::Applied), at(5));
    assert_eq!(progress(), None);
    assert_eq!(reloads.status().last.map(|it| it.1), Some(at(5)));
}

#[test]
fn results_are_counted() {
    use ReloadResult::{Applied, Interrupted, Refused, Restored, Returned, Unchanged};
    let reloads = served();
    for result in [Applied, Unchanged, Refused, Restored, Returned, Interrupted] {
        reloads.record(&outcome(result), Instant::now());
    }
    let status = reloads.status();
    assert_eq!((status.generation, status.failed, status.returned), (2, 3, 1));
    let differ = [Refused, Restored, Returned, Interrupted].map(ReloadResult::differs_from_files);
    assert_eq!(differ, [true; 4]);
    assert!(!Applied.differs_from_files() && !Unchanged.differs_from_files());
}
