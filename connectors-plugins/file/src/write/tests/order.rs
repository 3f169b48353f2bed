//! Order of deliveries that are in flight at the same time.

use std::{
    fs,
    future::{Future, poll_fn},
    path::Path,
    pin::Pin,
    task::Poll,
};

use tempfile::TempDir;
use tremor_pdk::{
    Batch, Delivery, ParallelSink, RawBatch, literal,
    testing::{TestHost, batch_of},
};

use crate::{
    Config,
    write::{Destination, Writer},
};

/// A sink in a folder of its own, to which deliveries are made at the same time.
struct Scene {
    folder: TempDir,
    host: TestHost,
    writer: Writer,
}

type InFlight<'s> = Pin<Box<dyn Future<Output = Delivery> + Send + 's>>;

impl Scene {
    fn new(path: &str, keys: &str) -> Self {
        let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::new());
        let path = folder.path().join(path);
        let config = format!(r#"{{ "path": "{}", "mode": "append", {keys} }}"#, path.display());
        let config: Config = serde_json::from_str(&config).unwrap();
        let config = config.check(&host.context()).unwrap();
        let writer = Writer::new(Destination::open(&config, host.host()).unwrap(), host.host());
        Self { folder, host, writer }
    }

    /// Begins all deliveries before the first of them has a thread, and waits until all are acknowledged.
    fn deliver(&self, batches: Vec<Batch>) {
        let batches: Vec<_> = batches.into_iter().map(RawBatch::from).collect();
        let mut deliveries: Vec<Option<InFlight<'_>>> =
            batches.iter().map(|batch| Some(Box::pin(self.writer.deliver(batch)) as _)).collect();
        self.host.block_on(poll_fn(|context| {
            for delivery in &mut deliveries {
                let polled = delivery.as_mut().map(|it| it.as_mut().poll(context));
                if let Some(Poll::Ready(answer)) = polled {
                    answer.unwrap();
                    *delivery = None;
                }
            }
            if deliveries.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
        }));
    }

    fn contents(&self, name: &str) -> String {
        fs::read_to_string(Path::join(self.folder.path(), name)).unwrap()
    }
}

/// Returns a batch with the same text for each host.
fn for_hosts(hosts: impl IntoIterator<Item = usize>, text: &str) -> Batch {
    let mut batch = Batch::new();
    for host in hosts {
        batch.push_message(text.as_bytes());
        let host = host.to_string();
        batch.last_mut().unwrap().set_metadata(literal!({ "template": { "host": host } }));
    }
    batch
}

const SYNCS: [&str; 3] = ["never", "batch", "interval"];

#[test]
fn short_delivery_waits_for_earlier_delivery_on_a_thread() {
    for sync in SYNCS {
        let scene = Scene::new("out", &format!(r#""sync": "{sync}""#));
        scene.deliver(vec![batch_of(&["first\n"])]);
        let long = "x".repeat(600 << 10) + "\n";
        scene.deliver(vec![batch_of(&[&long]), batch_of(&["short\n"])]);
        assert!(scene.contents("out") == format!("first\n{long}short\n"), "{sync}");
    }
}

#[test]
fn delivery_to_one_file_waits_for_earlier_delivery_to_many() {
    for sync in SYNCS {
        let scene = Scene::new("{host}", &format!(r#""sync": "{sync}""#));
        scene.deliver(vec![for_hosts(0..20, "1\n")]);
        scene.deliver(vec![for_hosts(0..20, "2\n"), for_hosts([7], "3\n")]);
        assert_eq!(scene.contents("7"), "1\n2\n3\n", "{sync}");
    }
}

#[test]
fn delivery_to_open_file_waits_for_one_that_opens_a_file() {
    let scene = Scene::new("{host}", r#""sync": "batch""#);
    scene.deliver(vec![for_hosts([1], "1\n")]);
    scene.deliver(vec![
        for_hosts([2], "2\n"),
        for_hosts([1, 2], "3\n"),
        for_hosts([3, 1], "4\n"),
        for_hosts([1], "5\n"),
    ]);
    let contents = [1, 2, 3].map(|host| scene.contents(&host.to_string()));
    assert_eq!(contents, ["1\n3\n4\n5\n", "2\n3\n", "4\n"]);
}

/// A thread still writes for the cancelled delivery.
#[test]
fn delivery_waits_for_thread_of_cancelled_delivery() {
    let scene = Scene::new("{host}", r#""sync": "batch""#);
    scene.deliver(vec![for_hosts(0..20, "1\n")]);
    let cancelled = RawBatch::from(for_hosts(0..20, "2\n"));
    let mut delivery = Box::pin(scene.writer.deliver(&cancelled));
    scene.host.block_on(poll_fn(|context| {
        assert!(delivery.as_mut().poll(context).is_pending());
        Poll::Ready(())
    }));
    drop(delivery);
    scene.deliver(vec![for_hosts([7], "3\n")]);
    assert_eq!(scene.contents("7"), "1\n2\n3\n");
}

/// Some of the files are closed while deliveries wait for their sync.
#[test]
fn files_that_are_closed_meanwhile_keep_their_order() {
    for sync in ["batch", "interval"] {
        let scene = Scene::new("{host}", &format!(r#""sync": "{sync}", "max_open_files": 1"#));
        let texts: Vec<_> = (0..6).map(|number| format!("{number}\n")).collect();
        scene.deliver(texts.iter().map(|text| for_hosts(0..3, text)).collect());
        for host in ["0", "1", "2"] {
            assert_eq!(scene.contents(host), texts.concat(), "{sync}");
        }
    }
}
