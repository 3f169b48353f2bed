//! Tests of the behaviour of loaded plugins, without and with faults.

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
    Instance::start(&factory(&library("fixture-faults"), "hostile"), config, &host("hostile"))
}

#[test]
fn source_and_sink_work_across_the_plugin_abi() {
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
    let reported = exceptions.iter();
    let reported: Vec<_> = reported.map(|it| (it.events.clone(), it.error.policy())).collect();
    assert_eq!(reported, [(1..2, ErrorPolicy::DEAD_LETTER), (3..4, ErrorPolicy::RETRY)]);
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
fn invalid_configuration_is_an_error_of_the_constructor() {
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
fn panic_in_any_method_is_an_error_of_its_instance() {
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
        assert_eq!(
            error.kind(),
            ErrorKind::PANICKED,
            "each call after the panic fails too: {error}"
        );
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
fn constructor_error_is_passed_on_unchanged() {
    let error = hostile(&json!({ "fault": "constructor_error" })).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
    assert_eq!(error.message(), "hostile: ConstructorError");
}

#[test]
fn forged_batch_is_an_error_and_not_read() {
    let mut instance = hostile(&json!({ "fault": "forged_batch", "after": 3 })).unwrap();
    let mut batch = Batch::new();
    let error = instance.pull(&mut batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::INTERNAL);
    assert!(error.to_string().starts_with("event 3 of a batch"), "{error}");
    assert!(batch.is_empty());
}

#[test]
fn result_for_undelivered_events_is_an_error() {
    let mut instance = hostile(&json!({ "fault": "deliver_lie" })).unwrap();
    assert_eq!(instance.deliver(&["x"]).unwrap_err().kind(), ErrorKind::INTERNAL);
}

#[test]
fn delivery_succeeds_after_a_temporary_fault() {
    let config = json!({ "fault": "deliver_timeout", "times": 1 });
    let mut instance = hostile(&config).unwrap();
    assert_eq!(instance.deliver(&["x"]).unwrap_err().kind(), ErrorKind::TIMEOUT);
    instance.deliver(&["x"]).unwrap();
}

#[test]
fn cancelled_pull_returns_its_batch() {
    use std::task::{Context, Waker};
    let relay = factory(&library("fixture-relay"), "relay");
    let mut instance = Instance::start(&relay, &json!({ "count": 1 }), &host("relay")).unwrap();
    let source = instance.source.as_mut().unwrap();
    let mut batch = Batch::new();
    batch.stream(7).push_message(b"was here before");
    // The first poll is pending, because the source yields.
    let poll = source.poll_pull(&mut Context::from_waker(Waker::noop()), &mut batch);
    assert!(poll.is_pending() && batch.is_empty());
    source.give_up(&mut batch);
    assert_eq!(batch.raw(&batch.events()[0]), Some(&b"was here before"[..]));
    assert_eq!(instance.pull_all().unwrap(), ["relay 0"]);
}

#[test]
fn requests_to_the_flow_arrive_with_component_context() {
    let asked = Asked::default();
    let context = HostContext::new("relay", "/", asked.clone());
    let relay = factory(&library("fixture-relay"), "relay");
    let instance = Instance::start(&relay, &json!({ "count": 1 }), &context).unwrap();
    assert!(std::sync::Arc::strong_count(&context) > 1, "the plugin has handles of the context");
    drop(instance);
    assert_eq!(std::sync::Arc::strong_count(&context), 1, "the plugin has dropped its handles");
    assert_eq!((asked.lost.load(Ordering::Relaxed), asked.stops.load(Ordering::Relaxed)), (0, 0));
}
