//! Tests of the page over real sockets.

use std::time::Duration;

use tremor_pdk::{
    Batch, ErrorPolicy, Value, literal,
    testing::{conformance, exceptions},
};

use super::PrometheusExporter;
use crate::{
    prometheus::number::STALE,
    server::tests::{Scene, expect, request},
};

const GET: &str = "GET /metrics HTTP/1.1";

fn scene(keys: &str) -> Scene {
    Scene::of::<PrometheusExporter>(keys)
}

/// Returns the page.
fn page(scene: &Scene) -> String {
    let answer = scene.rest(scene.client(&request(GET, "Connection: close\r\n", b"")));
    expect(&answer, 200, &["content-type: text/plain; version=0.0.4; charset=utf-8"]);
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn batch(samples: &[Value<'static>]) -> Batch {
    let mut batch = Batch::new();
    samples.iter().for_each(|sample| batch.push(sample).unwrap());
    batch
}

fn sample(name: &str, value: f64) -> Value<'static> {
    literal!({ "name": name.to_owned(), "value": value })
}

#[test]
fn page_has_the_latest_sample_of_each_series() {
    let mut scene = scene("");
    assert_eq!(page(&scene), "");
    scene
        .server
        .deliver(&batch(&[
            literal!({
                "name": "up", "type": "gauge", "help": "Is it \\ up?", "value": 0,
                "labels": { "b": "x\"\n", "a": 1 }
            }),
            literal!({ "name": "requests_total", "family": "requests", "type": "counter", "value": 1.5e20 }),
            sample("plain", f64::NEG_INFINITY),
        ]))
        .unwrap();
    let change = literal!({ "name": "up", "type": "gauge", "labels": { "a": "1", "b": "x\"\n" }, "value": "2" });
    scene.server.deliver(&batch(&[change])).unwrap();
    assert_eq!(
        page(&scene),
        "# TYPE plain untyped\nplain -Inf\n\
         # TYPE requests_total counter\nrequests_total 1.5e20\n\
         # HELP up Is it \\\\ up?\n# TYPE up gauge\nup{a=\"1\",b=\"x\\\"\\n\"} 2\n"
    );
    assert_eq!(scene.metric("series"), Some(3.0));
}

#[test]
fn buckets_and_quantiles_are_in_numerical_order() {
    let mut scene = scene("");
    let part = |kind: &str, suffix: &str, label: (&str, &str), job: &str| {
        let mut labels = tremor_pdk::Object::new();
        labels.insert("job".to_owned(), job.to_owned());
        if !label.0.is_empty() {
            labels.insert(label.0.to_owned(), label.1.to_owned());
        }
        literal!({
            "name": format!("t{kind}{suffix}"), "family": format!("t{kind}"), "type": kind.to_owned(),
            "labels": labels, "value": 1
        })
    };
    let mut samples = Vec::new();
    for job in ["b", "a"] {
        for le in ["+Inf", "10", "2", "0.5"] {
            samples.push(part("histogram", "_bucket", ("le", le), job));
        }
        samples.push(part("histogram", "_count", ("", ""), job));
        samples.push(part("summary", "_sum", ("", ""), job));
        samples.push(part("summary", "", ("quantile", "0.9"), job));
        samples.push(part("summary", "", ("quantile", "0.5"), job));
    }
    scene.server.deliver(&batch(&samples)).unwrap();
    let page = page(&scene);
    let lines: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            r#"thistogram_bucket{job="a",le="0.5"} 1"#,
            r#"thistogram_bucket{job="a",le="2"} 1"#,
            r#"thistogram_bucket{job="a",le="10"} 1"#,
            r#"thistogram_bucket{job="a",le="+Inf"} 1"#,
            r#"thistogram_count{job="a"} 1"#,
            r#"thistogram_bucket{job="b",le="0.5"} 1"#,
            r#"thistogram_bucket{job="b",le="2"} 1"#,
            r#"thistogram_bucket{job="b",le="10"} 1"#,
            r#"thistogram_bucket{job="b",le="+Inf"} 1"#,
            r#"thistogram_count{job="b"} 1"#,
            r#"tsummary{job="a",quantile="0.5"} 1"#,
            r#"tsummary{job="a",quantile="0.9"} 1"#,
            r#"tsummary_sum{job="a"} 1"#,
            r#"tsummary{job="b",quantile="0.5"} 1"#,
            r#"tsummary{job="b",quantile="0.9"} 1"#,
            r#"tsummary_sum{job="b"} 1"#,
        ]
    );
    assert_eq!(page.matches("# TYPE").count(), 2);
}

#[test]
fn earlier_sample_does_not_replace_a_later_one() {
    let mut scene = scene(r#", "timestamps": true, "labels": { "host": "{%name:-here}" }"#);
    let at = |value: f64, ns: i64| literal!({ "name": "up", "value": value, "timestamp": ns });
    scene.server.deliver(&batch(&[at(1.0, 5_000_000), at(2.0, 4_000_000)])).unwrap();
    assert_eq!(page(&scene), "# TYPE up untyped\nup{host=\"here\"} 1 5\n");
}

#[test]
fn series_without_samples_expires_and_stale_series_ends() {
    let mut scene = scene(r#", "expire_after": "60s""#);
    let stale = f64::from_bits(STALE);
    scene.server.deliver(&batch(&[sample("a", 1.0), sample("b", 1.0), sample("c", 1.0)])).unwrap();
    scene.server.deliver(&batch(&[sample("b", stale), sample("d", stale)])).unwrap();
    assert_eq!(page(&scene), "# TYPE a untyped\na 1\n# TYPE c untyped\nc 1\n");
    scene.host.advance(Duration::from_secs(40));
    scene.server.deliver(&batch(&[sample("c", 2.0)])).unwrap();
    scene.host.advance(Duration::from_secs(30));
    scene.server.tick().unwrap();
    assert_eq!(page(&scene), "# TYPE c untyped\nc 2\n");
    assert_eq!((scene.metric("series"), scene.metric("series_expired")), (Some(1.0), Some(1.0)));
    scene.host.advance(Duration::from_secs(70));
    scene.server.tick().unwrap();
    assert_eq!(page(&scene), "");
}

#[test]
fn memory_of_series_is_counted_until_they_expire() {
    let mut scene = scene("");
    let before = scene.host.memory();
    let long = |n: usize| {
        let text = format!("{n}{}", "x".repeat(1_000));
        literal!({ "name": "up", "labels": { "a": text }, "value": 1 })
    };
    let samples: Vec<_> = (0..500).map(long).collect();
    scene.server.deliver(&batch(&samples)).unwrap();
    assert!(scene.host.memory() >= before + 500_000, "{}", scene.host.memory());
    scene.host.advance(Duration::from_mins(6));
    scene.server.tick().unwrap();
    assert!(scene.host.memory() < before + 200_000, "{}", scene.host.memory());
}

#[test]
fn sample_beyond_the_limit_or_of_another_type_is_rejected() {
    let mut scene = scene(r#", "max_series": 2"#);
    let rejected = exceptions(scene.server.deliver(&batch(&[
        literal!({ "name": "a", "type": "gauge", "value": 1 }),
        literal!({ "name": "a", "type": "counter", "value": 2 }),
        sample("b", 1.0),
        sample("c", 1.0),
        literal!({ "name": "a", "type": "gauge", "labels": { "n": "1" }, "value": 1 }),
        sample("b", 2.0),
        literal!({ "name": "1", "value": 1 }),
    ])));
    let found: Vec<_> =
        rejected.iter().map(|it| (it.events.clone(), it.error.to_string())).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].0 == (1..2) && found[0].1.contains("is a counter in this event, but a gauge"));
    assert!(found[1].0 == (3..5) && found[1].1.contains("`max_series` 2"), "{found:?}");
    assert_eq!(found[2].0, 6..7);
    assert!(rejected.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER));
    assert_eq!(scene.metric("samples_refused"), Some(2.0));
    assert_eq!(page(&scene), "# TYPE a gauge\na 1\n# TYPE b untyped\nb 2\n");
}

#[test]
fn other_requests_are_rejected() {
    let scene = scene(r#", "auth": { "bearer": "token" }"#);
    for (line, headers, status) in [
        (GET, "", 401),
        ("GET / HTTP/1.1", "Authorization: Bearer token\r\n", 404),
        ("POST /metrics HTTP/1.1", "Authorization: Bearer token\r\n", 405),
        (GET, "Authorization: Bearer token\r\n", 200),
        ("HEAD /metrics HTTP/1.1", "Authorization: Bearer token\r\n", 200),
    ] {
        let headers = format!("{headers}Connection: close\r\n");
        expect(&scene.rest(scene.client(&request(line, &headers, b""))), status, &[]);
    }
}

#[test]
fn connector_passes_conformance_checks() {
    conformance::connector::<PrometheusExporter>(r#"{ "listen": "127.0.0.1:0" }"#)
        .expect_no_faults();
}
