use std::{
    slice::from_ref,
    task::{Context, Poll, Waker},
};

use super::{Acks, Error, Exception, FailedTicket, Tickets};
use crate::{RawBatch, StructuredBatch};

/// Returns tickets of pull 1 with the events 0 to 3.
fn four() -> Tickets<u32> {
    let tickets = Tickets::new();
    push(&tickets, 1, 0..4);
    tickets
}

fn push(tickets: &Tickets<u32>, pull: u64, numbers: std::ops::Range<u32>) {
    let mut batch = RawBatch::new();
    batch.set_pull(pull);
    let mut writer = tickets.begin(&mut batch);
    numbers.for_each(|number| writer.push_message(0, number, b""));
}

fn failed(ticket: u32) -> FailedTicket<u32> {
    FailedTicket { ticket, undecodable: None }
}

#[test]
fn acknowledged_pull_acknowledges_all_its_tickets() {
    let mut tickets = four();
    push(&tickets, 2, 4..6);
    assert_eq!(tickets.in_flight(), [0, 1, 2, 3, 4, 5]);
    tickets.ack(2).unwrap();
    assert_eq!(tickets.take().acknowledged, [4, 5]);
    assert_eq!(tickets.in_flight(), [0, 1, 2, 3]);
    tickets.ack(2).unwrap();
    assert!(tickets.take().is_empty(), "a pull ends once");
}

#[test]
fn failed_pull_fails_the_named_tickets_only() {
    let mut tickets = four();
    tickets.fail(1, &[0..1, 2..3]).unwrap();
    let progress = tickets.take();
    assert_eq!(progress.acknowledged, [1, 3]);
    assert_eq!(progress.failed, [failed(0), failed(2)]);
    let mut tickets = four();
    tickets.fail(1, from_ref(&(0..usize::MAX))).unwrap();
    assert_eq!(tickets.take().failed.len(), 4);
}

#[test]
fn undecodable_message_fails_with_its_error() {
    let mut tickets = four();
    let error = Error::bad_data("not a number");
    tickets.undecodable(1, &[Exception { events: 2..3, error: error.clone() }]).unwrap();
    tickets.fail(1, from_ref(&(1..3))).unwrap();
    let undecodable = FailedTicket { ticket: 2, undecodable: Some(error) };
    assert_eq!(tickets.take().failed, [failed(1), undecodable]);
}

#[test]
fn events_without_ticket_leave_positions_intact() {
    let mut tickets = Tickets::new();
    let mut batch = StructuredBatch::new();
    batch.set_pull(1);
    batch.stream(0).abort();
    let mut writer = tickets.begin(&mut batch);
    writer.push(0, 7, "").unwrap();
    writer.push(0, 8, "value").unwrap();
    drop(writer);
    tickets.fail(1, from_ref(&(1..2))).unwrap();
    let progress = tickets.take();
    assert_eq!((progress.failed, progress.acknowledged), (vec![failed(7)], vec![8]));
}

#[test]
fn ticket_of_value_that_cannot_be_written_fails() {
    struct Fails;
    impl serde::Serialize for Fails {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("on purpose"))
        }
    }
    let tickets = Tickets::new();
    let mut batch = StructuredBatch::new();
    let error = tickets.begin(&mut batch).push(0, 1, &Fails).unwrap_err();
    assert!(batch.is_empty());
    assert_eq!(tickets.take().failed, [FailedTicket { ticket: 1, undecodable: Some(error) }]);
}

#[test]
fn task_that_waits_is_woken_by_the_end_of_a_pull() {
    let tickets = four();
    let mut acks = tickets.clone();
    let mut progress = Box::pin(tickets.progress());
    let mut context = Context::from_waker(Waker::noop());
    assert!(progress.as_mut().poll(&mut context).is_pending());
    acks.ack(1).unwrap();
    let Poll::Ready(progress) = progress.as_mut().poll(&mut context) else { panic!("pending") };
    assert_eq!(progress.acknowledged, [0, 1, 2, 3]);
}

#[test]
fn rejected_message_adds_no_event_and_fails_its_ticket() {
    let tickets = Tickets::new();
    let mut batch = StructuredBatch::new();
    batch.set_pull(1);
    tickets.begin(&mut batch).reject(7, Error::bad_data("no text"));
    assert!(batch.is_empty());
    let undecodable = Some(Error::bad_data("no text"));
    assert_eq!(tickets.take().failed, [FailedTicket { ticket: 7, undecodable }]);
}
