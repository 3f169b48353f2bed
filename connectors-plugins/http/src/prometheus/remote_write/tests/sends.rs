//! Tests of the sink against a peer that answers with prepared statuses.

use std::{collections::VecDeque, sync::Mutex};

use tremor_pdk::{
    Batch, ErrorPolicy,
    testing::{Connection, TestHost, exceptions},
};

use super::{super::RemoteWrite, Point, batch, events, point, values};
use crate::testing::{Reply, Server};

fn ok() -> Reply {
    Reply::With(204, "", String::new())
}

fn status(status: u16, headers: &'static str, body: &str) -> Reply {
    Reply::With(status, headers, body.to_owned())
}

/// Starts a peer that answers requests with `replies` in this order.
fn peer(replies: Vec<Reply>) -> Server {
    let replies = Mutex::new(VecDeque::from(replies));
    Server::start(move |_| replies.lock().unwrap().pop_front().expect("no further request"))
}

fn sink(host: &TestHost, peer: &Server, keys: &str) -> Connection {
    host.follow_real_time();
    let config = format!(r#"{{ "url": "http://{}/api/v1/write" {keys} }}"#, peer.address);
    host.connect::<RemoteWrite>(&config).unwrap()
}

/// Returns the events of the requests that the peer received, by request.
fn received(peer: &Server) -> Vec<Vec<String>> {
    let decompressed = |body: &[u8]| snap::raw::Decoder::new().decompress_vec(body).unwrap();
    peer.requests().iter().map(|request| events(decompressed(&request.body))).collect()
}

fn untyped(points: &[Point]) -> Vec<String> {
    values(&batch(points)).iter().map(|text| text.replace("gauge", "untyped")).collect()
}

/// Returns samples of different series.
fn series(count: usize) -> Vec<Point> {
    (0..count).map(|n| point("up", ("n", &n.to_string()), 1.0, 7)).collect()
}

#[test]
fn delivery_is_one_request_with_the_headers_of_the_protocol() {
    let peer = peer(vec![ok()]);
    let host = TestHost::new();
    let keys = r#", "auth": { "bearer": "token" }, "headers": { "X-Scope-OrgID": "7" }"#;
    let points = [
        point("up", ("job", "a"), 1.0, 2),
        point("down", ("job", "a"), 3.0, 2),
        point("up", ("job", "a"), 2.0, 1),
    ];
    sink(&host, &peer, keys).deliver(&batch(&points)).unwrap();
    let request = peer.requests().remove(0);
    let (head, body) = (&request.head, &request.body);
    assert!(head.starts_with("POST /api/v1/write HTTP/1.1\r\n"), "{head}");
    for part in [
        "content-type: application/x-protobuf",
        "content-encoding: snappy",
        "x-prometheus-remote-write-version: 0.1.0",
        "user-agent: tremor/",
        "authorization: Bearer token",
        "x-scope-orgid: 7",
    ] {
        assert!(head.contains(part), "`{part}` is not in: {head}");
    }
    let body = snap::raw::Decoder::new().decompress_vec(body).unwrap();
    let expected = untyped(&[points[2].clone(), points[0].clone(), points[1].clone()]);
    assert_eq!(events(body), expected);
}

#[test]
fn sample_without_time_has_that_of_its_event_and_labels() {
    let peer = peer(vec![ok()]);
    let host = TestHost::new();
    let keys = r#", "labels": { "job": "node", "instance": "{%host:-none}", "a": "" }"#;
    let mut batch = Batch::new();
    batch
        .push(
            &tremor_pdk::literal!({ "name": "up", "labels": { "job": "own", "n": 1 }, "value": 1 }),
        )
        .unwrap();
    batch.last_mut().unwrap().set_ingest_ns(5_999_999);
    sink(&host, &peer, keys).deliver(&batch).unwrap();
    assert_eq!(
        received(&peer),
        [[concat!(
            r#"{"name":"up","type":"untyped","labels":{"instance":"none","job":"own","n":"1"},"#,
            r#""value":1.0,"timestamp":5000000}"#
        )]]
    );
}

#[test]
fn event_that_is_not_a_sample_is_rejected_alone() {
    let peer = peer(vec![ok()]);
    let host = TestHost::new();
    let mut batch = batch(&series(2));
    for value in [
        tremor_pdk::literal!("up"),
        tremor_pdk::literal!({ "name": "up" }),
        tremor_pdk::literal!({ "name": "a-b", "value": 1 }),
        tremor_pdk::literal!({ "name": "up", "value": "one" }),
        tremor_pdk::literal!({ "name": "up", "value": 1, "labels": { "__name__": "b" } }),
        tremor_pdk::literal!({ "name": "up", "value": 1, "labels": { "a": [] } }),
        tremor_pdk::literal!({ "name": "up", "value": 1, "mistake": 1 }),
    ] {
        batch.push(&value).unwrap();
    }
    let rejected = exceptions(sink(&host, &peer, "").deliver(&batch));
    let positions: Vec<_> = rejected.iter().flat_map(|it| it.events.clone()).collect();
    assert_eq!(positions, (2..9).collect::<Vec<_>>());
    assert!(
        rejected.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER),
        "{rejected:?}"
    );
    assert_eq!(received(&peer), [untyped(&series(2))]);
}

#[test]
fn refused_samples_are_found_by_dividing_the_request() {
    // The request of four samples, then its halves: the first half is good, the second one is divided.
    let bad = || status(400, "", "out of order sample");
    let peer = peer(vec![bad(), ok(), bad(), bad(), ok()]);
    let host = TestHost::new();
    let rejected = exceptions(sink(&host, &peer, "").deliver(&batch(&series(4))));
    assert_eq!(rejected.len(), 1, "{rejected:?}");
    assert_eq!(rejected[0].events, 2..3);
    assert_eq!(rejected[0].error.policy(), ErrorPolicy::DEAD_LETTER);
    let text = rejected[0].error.to_string();
    assert!(text.ends_with("answered with 400 Bad Request: out of order sample"), "{text}");
    let sizes: Vec<_> = received(&peer).iter().map(Vec::len).collect();
    assert_eq!(sizes, [4, 2, 2, 1, 1]);
}

#[test]
fn peer_that_refuses_everything_gets_few_requests() {
    let peer = peer(vec![status(400, "", ""); 400]);
    let host = TestHost::new();
    let rejected = exceptions(sink(&host, &peer, "").deliver(&batch(&series(600))));
    let count: usize = rejected.iter().map(|it| it.events.len()).sum();
    assert_eq!(count, 600);
    let text = rejected.last().unwrap().error.to_string();
    assert!(text.contains("not sent, because the peer refused 20 samples"), "{text}");
    let requests = peer.requests().len();
    assert!((20..60).contains(&requests), "{requests}");
}

#[test]
fn status_decides_between_retry_and_dead_letter() {
    for (code, policy) in [
        (429, ErrorPolicy::RETRY),
        (500, ErrorPolicy::RETRY),
        (503, ErrorPolicy::RETRY),
        (401, ErrorPolicy::RETRY),
        (403, ErrorPolicy::RETRY),
        (404, ErrorPolicy::RETRY),
        (408, ErrorPolicy::DEAD_LETTER),
        (415, ErrorPolicy::DEAD_LETTER),
    ] {
        let peer = peer(vec![status(code, "", "why")]);
        let host = TestHost::new();
        let rejected = exceptions(sink(&host, &peer, "").deliver(&batch(&series(3))));
        assert_eq!(rejected[0].events, 0..3, "{code}");
        assert_eq!(rejected[0].error.policy(), policy, "{code}");
        assert!(rejected[0].error.to_string().contains("why"), "{}", rejected[0].error);
    }
    let keys = r#", "retry_statuses": [408]"#;
    let (peer, host) = (peer(vec![status(408, "", "")]), TestHost::new());
    let rejected = exceptions(sink(&host, &peer, keys).deliver(&batch(&series(1))));
    assert_eq!(rejected[0].error.policy(), ErrorPolicy::RETRY);
}

/// Prometheus 2.42 answers with 500 to a sample that is older than its window for samples out of order.
#[test]
fn sample_that_is_refused_with_500_goes_to_err_alone() {
    for text in ["too old sample\n", "label name \"a\" is not unique: invalid sample\n"] {
        let bad = || status(500, "", text);
        let (peer, host) = (peer(vec![bad(), bad(), ok()]), TestHost::new());
        let rejected = exceptions(sink(&host, &peer, "").deliver(&batch(&series(2))));
        assert_eq!((rejected.len(), rejected[0].events.clone()), (1, 0..1), "{rejected:?}");
        assert_eq!(rejected[0].error.policy(), ErrorPolicy::DEAD_LETTER);
    }
}

#[test]
fn missing_path_concerns_samples_once_a_request_was_accepted() {
    for (code, policy) in
        [(401, ErrorPolicy::RETRY), (403, ErrorPolicy::RETRY), (404, ErrorPolicy::DEAD_LETTER)]
    {
        let (peer, host) = (peer(vec![ok(), status(code, "", "why")]), TestHost::new());
        let mut sink = sink(&host, &peer, "");
        assert!(exceptions(sink.deliver(&batch(&series(1)))).is_empty());
        let rejected = exceptions(sink.deliver(&batch(&series(1))));
        assert_eq!(rejected[0].error.policy(), policy, "{code}");
    }
}

#[test]
fn busy_peer_gets_no_request_before_the_delay_it_asked_for() {
    let peer = peer(vec![status(429, "Retry-After: 7\r\n", "")]);
    let host = TestHost::new();
    let mut sink = sink(&host, &peer, "");
    for _ in 0..2 {
        let rejected = exceptions(sink.deliver(&batch(&series(2))));
        assert_eq!(rejected[0].events, 0..2);
        let delay = rejected[0].error.delay();
        assert!((1..=7).contains(&delay.as_secs()), "{delay:?}");
    }
    assert_eq!(received(&peer).len(), 1);
}

#[test]
fn long_delivery_is_several_requests_in_order() {
    let peer = peer(vec![ok(), ok(), status(503, "", "")]);
    let host = TestHost::new();
    // Each series needs 39 bytes of a request.
    let rejected =
        exceptions(sink(&host, &peer, r#", "max_body_bytes": "80B""#).deliver(&batch(&series(8))));
    assert_eq!(rejected[0].events, 4..8);
    let sizes: Vec<_> = received(&peer).iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 2, 2]);
}
