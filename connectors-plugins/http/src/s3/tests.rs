//! Tests of the sink against a fake S3 over real sockets.

mod fake;
mod kills;
mod statuses;

use std::{path::Path, sync::Arc, time::Duration};

use tremor_pdk::{
    Batch, Delivery, ErrorPolicy, NoSource, Undelivered, literal,
    prelude::*,
    template::Template,
    testing::{Connection, TestHost, batch_of, batch_with_fields, conformance, exceptions},
};

use self::fake::{BUCKET, Fake, PART, REGION, Reaction, keys};
use super::{Archive, Config, S3, sign};

/// The connector with short parts, so that tests need little data.
struct ShortParts(S3);

impl Component for ShortParts {
    const NAME: &str = S3::NAME;
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let mut connector = S3::new(config, context)?;
        let settings = Arc::get_mut(&mut connector.settings).expect("the only reference");
        settings.part_bytes = PART;
        Ok(Self(connector))
    }
}

impl Connector for ShortParts {
    type Source = NoSource;
    type Sink = Archive;

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<NoSource, Archive>> {
        self.0.connect(wanted).await
    }
}

fn config(address: &str, keys_of_config: &str) -> String {
    let keys = keys();
    let (id, secret) = (keys.access_key_id, keys.secret_access_key);
    let token = keys.session_token.unwrap_or_default();
    format!(
        r#"{{ "endpoint": "http://{address}", "bucket": "{BUCKET}", "region": "{REGION}", "credentials": {{ "keys":
        {{ "access_key_id": "{id}", "secret_access_key": "{secret}", "session_token": "{token}" }} }}
        {keys_of_config} }}"#
    )
}

fn connect(host: &TestHost, fake: &Fake, keys: &str) -> Connection {
    // Let the clock follow real time. Otherwise it would jump to the next timer, and a timeout could expire before the
    // peer answers.
    host.follow_real_time();
    host.connect::<ShortParts>(&config(&fake.address, keys)).unwrap()
}

fn with_state(key: &str, folder: &Path) -> String {
    format!(r#", "key": "{key}", "state": "{}/state""#, folder.display())
}

/// Returns lines of 100 bytes, each a batch, with numbers from `from`.
fn batches(from: usize, count: usize) -> Vec<Batch> {
    (from..from + count).map(|number| batch_of(&[line(number) + "\n"])).collect()
}

fn line(number: usize) -> String {
    format!("{number:0>99}")
}

#[test]
fn deliveries_become_one_object_with_a_unique_key() {
    let (host, fake) = (TestHost::new(), Fake::new());
    let keys = r#", "key": "logs/ä x.ndjson", "storage_class": "STANDARD_IA", "server_side_encryption": "aws:kms",
        "content_type": "application/x-ndjson""#;
    let mut sink = connect(&host, &fake, keys);
    let answers = sink.deliver_together(&[batch_of(&["1\n", "2\n"]), batch_of(&["3\n"])]).unwrap();
    assert_eq!(answers, [Ok(()), Ok(())]);
    sink.deliver(&batch_of(&["4\n"])).unwrap();
    sink.stop().unwrap();
    fake.expect_no_faults();
    let store = fake.store();
    assert_eq!(store.requests, ["PUT", "PUT"]);
    assert_eq!(store.lines(), ["1", "2", "3", "4"]);
    let (key, object) = store.objects.first_key_value().unwrap();
    assert!(key.starts_with("logs/ä x-19700101T0000") && key.ends_with("-1.ndjson"), "{key}");
    let headers: Vec<_> = object.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let expected = [
        ("content-type", "application/x-ndjson"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-storage-class", "STANDARD_IA"),
    ];
    assert_eq!(headers, expected);
    drop(store);
    assert_eq!(host.metric("objects_stored"), Some(2.0));
    assert_eq!(host.metric("objects_bytes"), Some(8.0));
    assert_eq!(host.metric("objects_open"), Some(0.0));
    assert_eq!(host.memory(), 0);
}

#[test]
fn events_name_their_object_and_unusable_names_are_rejected() {
    let (host, fake) = (TestHost::new(), Fake::new());
    let mut sink = connect(&host, &fake, r#", "key": "{host}/x.log", "max_open_objects": 2"#);
    let template: Template = "{host}/x.log".parse().unwrap();
    let events = ["a", "b", "a", "c/d", "c"].map(|host| ("x\n", literal!({ "host": host })));
    let batch = batch_with_fields([&template], &events);
    let rejected = exceptions(sink.deliver(&batch));
    assert_eq!(rejected.len(), 1);
    assert_eq!(
        (rejected[0].events.clone(), rejected[0].error.policy()),
        (3..4, ErrorPolicy::DEAD_LETTER)
    );
    let store = fake.store();
    let objects: Vec<_> =
        store.objects.iter().map(|(key, it)| (&key[..2], it.bytes.len())).collect();
    assert_eq!(objects, [("a/", 4), ("b/", 2), ("c/", 2)]);
    drop(store);
    fake.expect_no_faults();
}

#[test]
fn object_is_complete_at_its_length_and_at_its_age() {
    let (host, fake) = (TestHost::new(), Fake::new());
    let keys = r#", "key": "x", "rotate": { "max_bytes": 300, "every": "1m" }"#;
    let mut sink = connect(&host, &fake, keys);
    for answer in sink.deliver_together(&batches(0, 7)).unwrap() {
        answer.unwrap();
    }
    let lengths: Vec<_> = fake.store().objects.values().map(|it| it.bytes.len()).collect();
    assert_eq!(lengths, [300, 300, 100]);
    // The runtime ticks while the delivery waits, so drive both here.
    let sink = sink.sink().unwrap();
    let mut batch = batch_of(&["x"]);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(sink.poll_deliver(&mut context, 0, &mut batch).is_pending());
    host.block_on(sink.on_tick()).unwrap();
    assert!(sink.poll_deliver(&mut context, 0, &mut batch).is_pending());
    host.advance(Duration::from_mins(1));
    host.block_on(sink.on_tick()).unwrap();
    let answer =
        host.block_on(std::future::poll_fn(|context| sink.poll_deliver(context, 0, &mut batch)));
    assert!(answer.unwrap().is_empty());
    assert_eq!(fake.store().objects.len(), 4);
}

#[test]
fn compressed_object_is_one_stream() {
    for (key, kind) in [("x.log.gz", "application/gzip"), ("x.log.zst", "application/zstd")] {
        let (host, fake) = (TestHost::new(), Fake::new());
        let mut sink = connect(&host, &fake, &format!(r#", "key": "{key}""#));
        for answer in sink.deliver_together(&batches(0, 5)).unwrap() {
            answer.unwrap();
        }
        let store = fake.store();
        let (found, object) = store.objects.first_key_value().unwrap();
        assert!(found.ends_with(key.strip_prefix('x').unwrap()), "{found}");
        assert_eq!(object.headers["content-type"], kind);
        let mut text = String::new();
        if kind.ends_with("gzip") {
            std::io::Read::read_to_string(
                &mut flate2::read::GzDecoder::new(&*object.bytes),
                &mut text,
            )
            .unwrap();
        } else {
            text = String::from_utf8(zstd::stream::decode_all(&*object.bytes).unwrap()).unwrap();
        }
        assert_eq!(
            text.lines().map(str::to_owned).collect::<Vec<_>>(),
            (0..5).map(line).collect::<Vec<_>>()
        );
    }
}

#[test]
fn long_object_is_uploaded_in_parts() {
    let (fake, folder) = (Fake::new(), tempfile::tempdir().unwrap());
    for (count, expected) in [(10, vec![]), (11, vec![1_000, 100]), (30, vec![1_000, 1_000, 1_000])]
    {
        let host = TestHost::new();
        let keys = with_state("x", folder.path()) + r#", "storage_class": "GLACIER_IR""#;
        let mut sink = connect(&host, &fake, &keys);
        for answer in sink.deliver_together(&batches(0, count)).unwrap() {
            answer.unwrap();
        }
        sink.stop().unwrap();
        fake.expect_no_faults();
        let mut store = fake.store();
        assert_eq!(store.lines(), (0..count).map(line).collect::<Vec<_>>());
        let (_, object) = store.objects.pop_first().unwrap();
        assert_eq!(
            (object.parts, &*object.headers["x-amz-storage-class"]),
            (expected, "GLACIER_IR")
        );
        assert!(store.uploads.is_empty());
    }
    let state = std::fs::read_to_string(folder.path().join("state")).unwrap();
    assert!(state.contains("\"uploads\": []"), "{state}");
}

/// The fake compares the checksums with the contents.
#[test]
fn objects_and_their_parts_have_checksums() {
    let (fake, folder) = (Fake::new(), tempfile::tempdir().unwrap());
    for (count, header, value) in [
        // The CRC-32 of the only line and its line feed, and the name of the algorithm.
        (1, "x-amz-checksum-crc32", sign::checksum((line(0) + "\n").as_bytes())),
        (30, "x-amz-checksum-algorithm", "CRC32".to_owned()),
    ] {
        let host = TestHost::new();
        let keys = with_state("x", folder.path()) + r#", "checksum": "crc32""#;
        let mut sink = connect(&host, &fake, &keys);
        for answer in sink.deliver_together(&batches(0, count)).unwrap() {
            answer.unwrap();
        }
        sink.stop().unwrap();
        fake.expect_no_faults();
        let (_, object) = fake.store().objects.pop_first().unwrap();
        assert_eq!(object.headers[header], value);
    }
}

#[test]
fn checksum_has_the_form_of_the_header() {
    // The check value of CRC-32, 0xCBF43926, in base64.
    assert_eq!(sign::checksum(b"123456789"), "y/Q5Jg==");
}

#[test]
fn long_object_without_state_is_one_request() {
    let (host, fake) = (TestHost::new(), Fake::new());
    let mut sink = connect(&host, &fake, r#", "key": "x", "sign_payload": false"#);
    for answer in sink.deliver_together(&batches(0, 50)).unwrap() {
        answer.unwrap();
    }
    assert_eq!(fake.store().requests, ["PUT"]);
    assert_eq!(fake.store().lines().len(), 50);
    fake.expect_no_faults();
}

#[test]
fn invalid_configuration_is_rejected() {
    let minimal = r#""bucket": "logs", "region": "r", "key": "x""#;
    for (config, part) in [
        (r#""bucket": "logs/x", "region": "r", "key": "x""#, "invalid `bucket` `logs/x`"),
        (r#""bucket": "{host}", "region": "r", "key": "x""#, "`bucket`"),
        (r#""bucket": "logs", "region": "a b", "key": "x""#, "invalid `region` `a b`"),
        (r#""bucket": "logs", "region": "r", "key": "/x""#, "invalid `key` `/x`"),
        (&format!(r#"{minimal}, "endpoint": "http://a/x""#), "invalid `endpoint`: it has a path"),
        (&format!(r#"{minimal}, "endpoint": "a""#), "invalid `endpoint`: it has no scheme"),
        (&format!(r#"{minimal}, "endpoint": "http://a", "tls": {{}}"#), "invalid `tls`"),
        (&format!(r#"{minimal}, "rotate": {{ "max_bytes": "2GiB" }}"#), "set `state`"),
        (&format!(r#"{minimal}, "storage_class": "a\nb""#), "invalid `storage_class`"),
        (&format!(r#"{minimal}, "kms_key_id": "a""#), "`kms_key_id` needs"),
    ] {
        let error = TestHost::new().component::<S3>(&format!("{{ {config} }}")).err().unwrap();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn url_names_the_bucket_in_the_host_or_the_path() {
    for (keys, url, base) in [
        (r#""region": "eu-west-1""#, "https://logs.s3.eu-west-1.amazonaws.com:443/", ""),
        (r#""region": "cn-north-1""#, "https://logs.s3.cn-north-1.amazonaws.com.cn:443/", ""),
        (r#""region": "r", "path_style": true"#, "https://s3.r.amazonaws.com:443/", "logs"),
        (r#""region": "r", "endpoint": "http://a:9000""#, "http://a:9000/", "logs"),
        (r#""region": "r", "endpoint": "http://a", "path_style": false"#, "http://logs.a:80/", ""),
    ] {
        let config = format!(r#"{{ "bucket": "logs", "key": "x", {keys} }}"#);
        let settings = TestHost::new().component::<S3>(&config).unwrap().settings;
        assert_eq!((&*settings.url().to_string(), &*settings.base), (url, base));
    }
}

#[test]
fn connector_passes_conformance_checks() {
    let fake = Fake::new();
    conformance::connector::<S3>(&config(&fake.address, r#", "key": "x""#)).expect_no_faults();
    let absent = config("127.0.0.1:1", r#", "key": "x""#);
    conformance::connector::<S3>(&absent).expect_no_faults();
}
