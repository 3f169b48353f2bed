//! What plugins do once they are loaded, good and bad.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tremor_abi::{batch::HostBatch, connector::Hook};
use tremor_pdk::{Batch, ErrorKind, ErrorPolicy, Pull, Result};
use tremor_runtime::{executor::block_on, plugin::HostContext};

use crate::{
    drive::{Asked, Instance, factory, host},
    support::library,
};

fn hostile(config: &Value) -> Result<Instance> {
    Instance::start(&factory(&library("fixture-hostile"), "hostile"), config, &host("hostile"))
}

#[test]
fn a_source_and_a_sink_work_through_the_boundary() {
    let relay = factory(&library("fixture-relay"), "relay");
    let context = host("relay");
    let config = json!({ "count": 300 });
    let mut instance = Instance::start(&relay, &config, &context).unwrap();
    assert_eq!(
        instance.connector.codec_requirement(),
        tremor_runtime::dynamic::CodecRequirement::Optional("string")
    );
    let messages = instance.pull_all().unwrap();
    assert_eq!((messages.len(), &*messages[299]), (300, "relay 299"));

    let exceptions = instance.deliver(&["good", "bad", "good", "later"]).unwrap();
    let told = exceptions.iter();
    let told: Vec<_> = told.map(|told| (told.events.clone(), told.error.policy())).collect();
    assert_eq!(told, [(1..2, ErrorPolicy::DEAD_LETTER), (3..4, ErrorPolicy::RETRY)]);
    let metrics = context.metrics().snapshot();
    assert_eq!(metrics.len(), 1);
    assert_eq!((&*metrics[0].name, metrics[0].value), ("delivered", 2.0));

    let sink = instance.sink.as_mut().unwrap();
    block_on(sink.on_tick()).unwrap();
    block_on(sink.close()).unwrap();
    assert_eq!(block_on(sink.close()).unwrap_err().message(), "closed before");
    block_on(instance.connector.hook(Hook::CLOSE)).unwrap();
}

#[test]
fn a_bad_configuration_is_an_error_of_the_constructor() {
    let relay = factory(&library("fixture-relay"), "relay");
    for (config, said) in [
        (json!({ "count": 1_001 }), "`count` is 1001, at most 1,000"),
        (json!({ "count": "many" }), "`count`: invalid type: string \"many\""),
        (json!({}), "missing field `count`"),
        (json!(null), "missing field `count`"),
    ] {
        let error = relay.create(&config, &host("x")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_panic_is_an_error_of_its_instance_wherever_it_happens() {
    for fault in ["constructor", "connect", "start"] {
        let error = hostile(&json!({ "fault": format!("{fault}_panic") })).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::PANICKED, "{fault}: {error}");
        assert!(error.to_string().contains("hostile"), "{fault}: {error}");
    }
    let mut instance = hostile(&json!({ "fault": "pull_panic", "after": 2 })).unwrap();
    let mut batch = Batch::new();
    assert_eq!(instance.pull(&mut batch).unwrap(), Pull::Events);
    assert_eq!(batch.len(), 2);
    for _ in 0..2 {
        let error = instance.pull(&mut Batch::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PANICKED, "now and for good: {error}");
    }
    let mut instance = hostile(&json!({ "fault": "deliver_panic", "after": 1 })).unwrap();
    instance.deliver(&["x"]).unwrap();
    assert_eq!(instance.deliver(&["x"]).unwrap_err().kind(), ErrorKind::PANICKED);
    let mut instance = hostile(&json!({ "fault": "stop_panic" })).unwrap();
    let error = block_on(instance.connector.hook(Hook::CLOSE)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PANICKED, "{error}");
    let mut instance = hostile(&json!({ "fault": "signal_panic" })).unwrap();
    let signal = block_on(instance.sink.as_mut().unwrap().on_tick());
    assert_eq!(signal.unwrap_err().kind(), ErrorKind::PANICKED);
    drop(hostile(&json!({ "fault": "drop_panic" })).unwrap());
    drop(hostile(&json!({ "fault": "task_panic" })).unwrap());
}

#[test]
fn a_constructor_s_error_comes_through_as_it_is() {
    let error = hostile(&json!({ "fault": "constructor_error" })).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
    assert_eq!(error.message(), "hostile: ConstructorError");
}

#[test]
fn a_forged_batch_is_an_error_and_none_of_it_is_seen() {
    let mut instance = hostile(&json!({ "fault": "forged_batch", "after": 3 })).unwrap();
    let mut batch = Batch::new();
    let error = instance.pull(&mut batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::INTERNAL);
    assert!(error.to_string().starts_with("event 3 of a batch"), "{error}");
    assert!(batch.is_empty());
}

#[test]
fn a_reply_about_events_that_were_not_delivered_is_an_error() {
    let mut instance = hostile(&json!({ "fault": "deliver_lie" })).unwrap();
    assert_eq!(instance.deliver(&["x"]).unwrap_err().kind(), ErrorKind::INTERNAL);
}

#[test]
fn a_fault_may_pass() {
    let config = json!({ "fault": "deliver_timeout", "times": 1 });
    let mut instance = hostile(&config).unwrap();
    assert_eq!(instance.deliver(&["x"]).unwrap_err().kind(), ErrorKind::TIMEOUT);
    instance.deliver(&["x"]).unwrap();
}

#[test]
fn a_pull_that_is_given_up_gives_its_batch_back() {
    use std::task::{Context, Waker};
    let relay = factory(&library("fixture-relay"), "relay");
    let mut instance = Instance::start(&relay, &json!({ "count": 1 }), &host("relay")).unwrap();
    let source = instance.source.as_mut().unwrap();
    let mut batch = Batch::new();
    batch.stream(7).push_message(b"was here before");
    // It waits on the host's clock first.
    let poll = source.poll_pull(&mut Context::from_waker(Waker::noop()), &mut batch);
    assert!(poll.is_pending() && batch.is_empty());
    source.give_up(&mut batch);
    assert_eq!(batch.raw(&batch.events()[0]), Some(&b"was here before"[..]));
    assert_eq!(instance.pull_all().unwrap(), ["relay 0"]);
}

#[test]
fn what_a_component_asks_of_its_flow_arrives_and_its_context_goes_with_it() {
    let asked = Asked::default();
    let context = HostContext::new("relay", "/", asked.clone());
    let relay = factory(&library("fixture-relay"), "relay");
    let instance = Instance::start(&relay, &json!({ "count": 1 }), &context).unwrap();
    assert!(std::sync::Arc::strong_count(&context) > 1, "the plugin holds handles");
    drop(instance);
    assert_eq!(std::sync::Arc::strong_count(&context), 1, "and has given them back");
    assert_eq!((asked.lost.load(Ordering::Relaxed), asked.stops.load(Ordering::Relaxed)), (0, 0));
}
