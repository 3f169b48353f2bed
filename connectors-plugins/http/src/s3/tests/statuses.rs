//! Answers of every class, and connections that break.

use std::task::{Context, Waker};

use super::{
    Connection, Delivery, ErrorPolicy, Fake, Reaction, TestHost, Undelivered, batch_of, batches,
    connect, line, with_state,
};

#[track_caller]
fn error(delivery: Delivery) -> tremor_pdk::Error {
    delivery.expect_err("the delivery must fail").into_error()
}

fn deliver_all(sink: &mut Connection, count: usize) -> Vec<Delivery> {
    sink.deliver_together(&batches(0, count)).unwrap()
}

#[test]
fn transient_failure_is_repeated_with_the_same_key() {
    for reaction in [
        Reaction::Refuse(503, "SlowDown"),
        Reaction::Refuse(500, "InternalError"),
        Reaction::ProcessAndRefuse(500, "InternalError"),
        Reaction::Refuse(200, "InternalError"),
        Reaction::Cut,
        Reaction::ProcessAndCut,
    ] {
        let (host, fake) = (TestHost::new(), Fake::new());
        fake.react(move |number, _| if number < 2 { reaction } else { Reaction::Process });
        let mut sink = connect(&host, &fake, r#", "key": "x""#);
        sink.deliver(&batch_of(&["1\n"])).unwrap();
        assert_eq!(fake.store().requests.len(), 3, "{reaction:?}");
        assert_eq!(fake.store().lines(), ["1"]);
        fake.expect_no_faults();
    }
}

#[test]
fn lasting_failure_is_an_error_of_the_deliveries() {
    let (host, fake) = (TestHost::new(), Fake::new());
    fake.react(|_, _| Reaction::Refuse(503, "SlowDown"));
    let mut sink = connect(&host, &fake, r#", "key": "x""#);
    let error = error(sink.deliver(&batch_of(&["1\n"])));
    assert_eq!(error.policy(), ErrorPolicy::RETRY);
    let text = error.to_string();
    assert!(text.starts_with("cannot store an object in the bucket `a-bucket`: "), "{text}");
    assert!(text.ends_with("the server answered with 503 SlowDown: This is SlowDown"), "{text}");
    assert_eq!(fake.store().requests.len(), 4);
    assert_eq!(host.metric("objects_failed"), Some(1.0));
    fake.react(|_, _| Reaction::Process);
    sink.deliver(&batch_of(&["1\n"])).unwrap();
    assert_eq!(fake.store().lines(), ["1"]);
}

/// Otherwise the runtime reports a fault of the plugin while the server is down.
#[test]
fn flush_returns_after_all_deliveries_are_answered() {
    for reaction in [Reaction::Process, Reaction::Refuse(503, "SlowDown")] {
        let (host, fake) = (TestHost::new(), Fake::new());
        fake.react(move |_, _| reaction);
        let mut sink = connect(&host, &fake, r#", "key": "x", "rotate": { "max_bytes": 150 }"#);
        let sink = sink.sink().unwrap();
        let mut context = Context::from_waker(Waker::noop());
        // The first object is complete before the flush, and the second one because of it.
        let mut batches = batches(0, 3);
        for (slot, batch) in batches.iter_mut().enumerate() {
            assert!(sink.poll_deliver(&mut context, slot, batch).is_pending());
        }
        host.block_on(sink.flush()).unwrap();
        for (slot, batch) in batches.iter_mut().enumerate() {
            assert!(sink.poll_deliver(&mut context, slot, batch).is_ready(), "{reaction:?}");
        }
    }
}

#[test]
fn state_is_not_repeated_and_refused_object_is_a_dead_letter() {
    for (status, code, policy) in [
        (403, "InvalidAccessKeyId", ErrorPolicy::RETRY),
        (403, "AccessDenied", ErrorPolicy::RETRY),
        (404, "NoSuchBucket", ErrorPolicy::RETRY),
        (301, "PermanentRedirect", ErrorPolicy::RETRY),
        (400, "EntityTooLarge", ErrorPolicy::DEAD_LETTER),
    ] {
        let (host, fake) = (TestHost::new(), Fake::new());
        fake.react(move |_, _| Reaction::Refuse(status, code));
        let mut sink = connect(&host, &fake, r#", "key": "x""#);
        let error = error(sink.deliver(&batch_of(&["1\n"])));
        assert_eq!((error.policy(), fake.store().requests.len()), (policy, 1), "{error}");
        assert!(
            error.to_string().contains(code) && !error.to_string().contains("secret"),
            "{error}"
        );
    }
}

#[test]
fn each_request_of_an_upload_may_fail_once() {
    let folder = tempfile::tempdir().unwrap();
    for reaction in [
        Reaction::Refuse(503, "SlowDown"),
        Reaction::ProcessAndRefuse(500, "InternalError"),
        Reaction::Refuse(200, "InternalError"),
        Reaction::ProcessAndRefuse(200, "InternalError"),
        Reaction::Cut,
        Reaction::ProcessAndCut,
    ] {
        // The requests begin an upload, upload three parts, and complete the upload.
        for failing in 0..5 {
            let (host, fake) = (TestHost::new(), Fake::new());
            fake.react(
                move |number, _| if number == failing { reaction } else { Reaction::Process },
            );
            let mut sink = connect(&host, &fake, &with_state("x", folder.path()));
            let answers = deliver_all(&mut sink, 25);
            sink.stop().unwrap();
            fake.expect_no_faults();
            let store = fake.store();
            let case = format!("{reaction:?} {failing}: {:?}", store.requests);
            assert!(answers.iter().all(Result::is_ok), "{case}");
            assert_eq!(store.lines(), (0..25).map(line).collect::<Vec<_>>(), "{case}");
            assert!(store.uploads.is_empty(), "{case}");
        }
    }
}

#[test]
fn failed_upload_is_aborted_and_its_events_are_delivered_again() {
    let folder = tempfile::tempdir().unwrap();
    let (host, fake) = (TestHost::new(), Fake::new());
    let foreign = fake.add_foreign_upload("x");
    fake.react(|_, name| match name {
        "PUT partNumber uploadId" => Reaction::Refuse(403, "AccessDenied"),
        _ => Reaction::Process,
    });
    let mut sink = connect(&host, &fake, &with_state("x", folder.path()));
    for answer in deliver_all(&mut sink, 25) {
        let Err(Undelivered::Some { exceptions, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(exceptions[0].error.policy(), ErrorPolicy::RETRY);
    }
    sink.close_sink().unwrap();
    assert_eq!(fake.store().uploads.keys().collect::<Vec<_>>(), [&foreign]);
    fake.react(|_, _| Reaction::Process);
    assert!(deliver_all(&mut sink, 25).iter().all(Result::is_ok));
    assert_eq!(fake.store().lines().len(), 25);
    fake.expect_no_faults();
}
