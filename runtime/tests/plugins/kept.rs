//! Tests of libraries that were built with earlier minor versions of the ABI and archived unchanged. The libraries load
//! and behave as before, although later versions of the ABI have more methods. `tests/fixtures/kept/README.md`
//! describes how to archive a library.

use std::{
    env, fs,
    future::poll_fn,
    path::Path,
    pin::pin,
    task::{Context, Poll, Waker},
};

use serde_json::{Value as Json, json};
use tremor_abi::{batch::HostOutput, connector::Hook};
use tremor_pdk::{Batch, ErrorPolicy, EventRef, Grant, InFlight, Output, Pull};
use tremor_runtime::{
    clock::Clock,
    executor::block_on,
    plugin::{ComponentFactory, Library, Policy},
};

use crate::{
    drive::{Instance, factory, host, timed_host},
    support::{library, workspace},
};

#[test]
fn current_library_passes_checks_of_kept_ones() {
    check_library(&library("fixture-every-kind"));
}

#[test]
pub(crate) fn kept_libraries_load_and_behave_as_before() {
    let folder = workspace().join("tests/fixtures/kept");
    let platform = format!("{}-{}", env::consts::ARCH, env::consts::OS);
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(version) = name.strip_suffix(&format!("-{platform}.so.zst")) else { continue };
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kept-{name}.so"));
        let bytes = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
        // Write to another file and rename it, because another process may have the old file open.
        let new = target.with_extension(std::process::id().to_string());
        fs::write(&new, bytes).unwrap();
        fs::rename(new, &target).unwrap();
        assert_eq!(Library::inspect(&target).unwrap().metadata().abi, version);
        check_library(&target);
        found += 1;
    }
    if found == 0 {
        eprintln!("SKIPPED: no library of an earlier minor version is archived for {platform}");
    }
}

/// Lets the sleeps of the plugin's pulls and deliveries, of 1 ms each, end.
fn wake(clock: &Clock) {
    clock.set_ns(clock.monotonic_ns() + 1_000_000);
}

fn texts(batch: &Batch) -> Vec<String> {
    let text = |event: EventRef<'_>| match (event.raw(), event.value()) {
        (Some(bytes), _) => String::from_utf8_lossy(bytes).into_owned(),
        (None, Some(value)) => value.to_string(),
        (None, None) => String::new(),
    };
    batch.iter().map(text).collect()
}

fn messages(messages: &[&str]) -> Batch {
    let mut batch = Batch::new();
    messages.iter().for_each(|message| batch.push_message(message.as_bytes()));
    batch
}

fn check_library(path: &Path) {
    check_source(path);
    check_sink(path);
    check_steps(path);
}

fn check_source(path: &Path) {
    let clock = Clock::stopped();
    let context = timed_host("kept", &clock);
    let mut it = Instance::start(&factory(path, "both"), &json!({ "count": 3 }), &context).unwrap();
    assert_eq!(
        it.connector.codec_requirement(),
        tremor_runtime::dynamic::CodecRequirement::Optional("string")
    );
    let source = it.source.as_mut().unwrap();
    let mut acks = source.acks().unwrap().expect("the source requests acknowledgements");
    let most = InFlight { events: 7, bytes: 1_000, key: "count" };
    assert_eq!(acks.most_in_flight(), most);
    let mut batch = Batch::new();
    batch.set_pull(1);
    let mut waits = Context::from_waker(Waker::noop());
    assert!(source.poll_pull(&mut waits, &mut batch).is_pending());
    // Acknowledge a pull while the source waits.
    acks.ack(1).unwrap();
    wake(&clock);
    let pulled = block_on(poll_fn(|context| source.poll_pull(context, &mut batch)));
    assert_eq!(pulled, Ok(Pull::Finished));
    assert_eq!(texts(&batch), ["3", "2", "1"]);
    acks.fail(2, &[0..1, 4..6]).unwrap();
    source.on_circuit_breaker(true).unwrap();
    assert!(source.poll_pull(&mut waits, &mut Batch::new()).is_pending());
    source.give_up(&mut Batch::new());
    block_on(source.close()).unwrap();
    assert_eq!(format!("{}", context.metrics().snapshot()[0].value), "301");
    block_on(it.connector.hook(Hook::PAUSE)).unwrap();
    block_on(it.connector.hook(Hook::RESUME)).unwrap();
    (it.source, it.sink) = (None, None);
    block_on(it.connector.hook(Hook::CLOSE)).unwrap();
}

fn check_sink(path: &Path) {
    let (config, clock) = (json!({ "count": 3 }), Clock::stopped());
    let context = timed_host("kept", &clock);
    let mut it = Instance::start(&factory(path, "both"), &config, &context).unwrap();
    let sink = it.sink.as_mut().unwrap();
    assert_eq!(sink.demand().most_in_flight, 3);
    sink.on_grant(Grant::new(3, true, None));
    let mut batches = [messages(&["a"]), messages(&["b", "", "c"]), messages(&["d"])];
    let mut waits = Context::from_waker(Waker::noop());
    for (slot, batch) in batches.iter_mut().enumerate() {
        assert!(sink.poll_deliver(&mut waits, slot, batch).is_pending());
    }
    sink.give_up(0);
    wake(&clock);
    for slot in [2, 1] {
        let answer = poll_fn(|context| sink.poll_deliver(context, slot, &mut batches[slot]));
        let exceptions = block_on(pin!(answer)).unwrap();
        let reported = exceptions.iter().map(|it| (it.events.start, it.events.end));
        assert!(reported.eq((slot == 1).then_some((1, 2))));
        for exception in &exceptions {
            assert_eq!(exception.error.policy(), ErrorPolicy::RETRY);
            assert_eq!(exception.error.delay().as_millis(), 7);
        }
    }
    let nowhere = sink.poll_deliver(&mut waits, 3, &mut messages(&["e"]));
    assert!(matches!(nowhere, Poll::Ready(Err(_))), "there are three slots");
    block_on(sink.close()).unwrap();
}

fn check_steps(path: &Path) {
    let library = Library::inspect(path).unwrap();
    let of = |kind, name| ComponentFactory::load(&library, kind, name, Policy::default()).unwrap();
    let (config, context, mut output) = (Json::Null, host("kept"), Output::new());

    let mut codec = of("codec", "text").codec(&config, &context).unwrap();
    let mut batch = messages(&["some", "text"]);
    codec.decode(&mut batch, &mut output).unwrap();
    assert_eq!(texts(&batch), ["\"some\"", "\"text\""]);
    let mut encoded = Batch::new();
    codec.encode(&mut batch, &mut encoded, &mut output).unwrap();
    assert_eq!(texts(&encoded), ["\"some\"", "\"text\""]);

    let mut evens = of("operator", "evens").operator(&config, &context).unwrap();
    assert_eq!(evens.ports(), ["odd"]);
    let mut numbers = Batch::new();
    (0..4).for_each(|number| numbers.push(&number).unwrap());
    numbers.push(&"none").unwrap();
    evens.process(&mut numbers, &mut output).unwrap();
    assert_eq!(texts(&numbers), ["0", "2"]);
    let odd: Vec<_> = output.take_ports().map(|port| texts(&port.batch)).collect();
    assert_eq!(odd, [["1", "3"]]);
    assert_eq!(output.take_rejected()[0].error.message(), "not a number");

    let mut upper = of("preprocessor", "upper").preprocessor(&config, &context).unwrap();
    let mut batch = messages(&["up"]);
    upper.process(&mut batch, &mut output).unwrap();
    assert_eq!(texts(&batch), ["UP"]);
    let mut dotted = of("postprocessor", "dotted").postprocessor(&config, &context).unwrap();
    dotted.process(&mut batch, &mut output).unwrap();
    assert_eq!(texts(&batch), ["UP."]);
}
