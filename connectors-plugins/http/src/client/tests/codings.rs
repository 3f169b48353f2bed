//! Tests of responses whose bodies are compressed.

use std::io::Write;

use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use tremor_pdk::{
    ErrorPolicy, EventRef, Pull, Undelivered,
    testing::{TestHost, batch_of},
};

use super::{HttpClient, Reply, client, peer, status};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(text, 1).unwrap()
}

const INTERVAL: std::time::Duration = std::time::Duration::from_secs(30);

/// Polls each of `replies`. Returns the event or the error of each.
fn polls(replies: Vec<Reply>, keys: &str) -> Vec<Result<Vec<u8>, String>> {
    let count = replies.len();
    let peer = peer(replies);
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, &format!(r#", "interval": "30s" {keys}"#));
    let mut poll = || {
        host.advance(INTERVAL);
        let (pull, batch) = client.pull().map_err(|error| error.to_string())?;
        assert_eq!(pull, Pull::Events);
        Ok(batch.first().and_then(EventRef::raw).unwrap().to_vec())
    };
    let polled = (0..count).map(|_| poll()).collect();
    for (_, head, _) in peer.requests.join().unwrap() {
        assert!(head.contains("accept-encoding: gzip, deflate, zstd"), "{head}");
    }
    polled
}

#[test]
fn polled_body_is_decompressed() {
    let long = "a line of a log\n".repeat(60_000);
    // Long even when compressed.
    let numbers: String = (0..60_000_u64).map(|it| (it * it * it).to_string()).collect();
    let chunked = |coding: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n");
        let length = format!("{:x}\r\n", body.len());
        Reply::With([head.as_bytes(), length.as_bytes(), body, b"\r\n0\r\n\r\n"].concat())
    };
    for (reply, expected) in [
        (status(200, "Content-Encoding: gzip\r\n", gzip(b"one")), "one"),
        (status(200, "Content-Encoding: X-GZIP\r\n", gzip(b"one")), "one"),
        (status(200, "Content-Encoding: deflate\r\n", zlib(b"one")), "one"),
        (status(200, "Content-Encoding: identity\r\n", b"one"), "one"),
        (status(200, "Content-Encoding: gzip, zstd\r\n", zstd(&gzip(b"one"))), "one"),
        (
            status(
                200,
                "Content-Encoding: gzip\r\nContent-Encoding: zstd\r\n",
                zstd(&gzip(b"one")),
            ),
            "one",
        ),
        (chunked("gzip, chunked", &gzip(b"one")), "one"),
        (status(200, "Content-Encoding: zstd\r\n", zstd(long.as_bytes())), &*long),
        (status(200, "Content-Encoding: gzip\r\n", gzip(numbers.as_bytes())), &*numbers),
        (status(200, "Content-Encoding: gzip\r\n", ""), ""),
        (status(204, "Content-Encoding: gzip\r\n", ""), ""),
    ] {
        let polled = polls(vec![reply], "");
        assert_eq!(polled, [Ok(expected.as_bytes().to_vec())]);
    }
}

#[test]
fn body_that_cannot_be_decompressed_is_no_event() {
    let cut = gzip(b"one line");
    let replies = vec![
        status(200, "Content-Encoding: br\r\n", "compressed"),
        status(200, "Content-Encoding: gzip\r\n", &cut[..cut.len() - 3]),
        status(200, "Content-Encoding: gzip\r\n", "plain"),
        status(200, "Content-Encoding: gzip\r\n", gzip(&[b'x'; 1_001])),
        status(200, "Content-Encoding: gzip\r\n", gzip(&[b'x'; 1_000])),
    ];
    let polled = polls(replies, r#", "max_response_bytes": 1000"#);
    for (polled, part) in polled.iter().zip([
        "the body has the `Content-Encoding` `br`; expected",
        "cannot decompress it as gzip: ",
        "cannot decompress it as gzip: ",
        "exceeds 1000 bytes; raise `max_response_bytes`",
    ]) {
        let error = polled.as_ref().unwrap_err();
        assert!(error.contains(part), "`{part}` is not in: {error}");
        assert!(error.contains("the response of `http://"), "{error}");
    }
    assert_eq!(polled[4], Ok(vec![b'x'; 1_000]));
}

#[test]
fn compressed_reason_of_a_refusal_is_readable() {
    let long = [&b"no field `id` "[..], &vec![b' '; 100_000]].concat();
    let peer = peer(vec![
        status(400, "Content-Encoding: gzip\r\n", gzip(b"no field `id`")),
        status(400, "Content-Encoding: zstd\r\n", zstd(&long)),
        status(400, "Content-Encoding: br\r\n", "compressed"),
    ]);
    let mut client = client(&TestHost::new(), &peer.address, "");
    let mut refused = || {
        let error = client.deliver(&batch_of(&["1"])).unwrap_err().into_error();
        assert_eq!(error.policy(), ErrorPolicy::DEAD_LETTER);
        error.to_string()
    };
    for _ in 0..2 {
        let text = refused();
        assert!(text.contains("400 Bad Request: no field `id`"), "{text}");
    }
    let text = refused();
    assert!(text.contains("400 Bad Request; cannot read the response") && text.contains("`br`"));
    peer.requests.join().unwrap();
}

#[test]
fn compressed_rejection_of_otlp_items_is_a_dead_letter() {
    let json = br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#;
    let peer = peer(vec![
        status(200, "Content-Encoding: gzip\r\n", gzip(b"\x0a\x0b\x08\x03\x12\x07too old")),
        status(200, "Content-Encoding: deflate\r\n", zlib(json)),
        status(200, "Content-Encoding: br\r\n", "compressed"),
        status(200, "Content-Encoding: gzip\r\n", gzip(b"{}")),
        status(200, "Content-Encoding: gzip\r\n", ""),
    ]);
    let test = TestHost::new();
    test.follow_real_time();
    let config =
        format!(r#"{{ "url": "http://{}", "preset": {{ "otlp": "traces" }} }}"#, peer.address);
    let mut client = test.connect::<HttpClient>(&config).unwrap();
    let mut delivered = || client.deliver(&batch_of(&["1"])).map_err(Undelivered::into_error);
    for part in ["rejected 3 of its items: too old", "rejected 3 of its items: too old", "`br`"] {
        let error = delivered().unwrap_err();
        assert_eq!(error.policy(), ErrorPolicy::DEAD_LETTER);
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
    assert_eq!([delivered(), delivered()], [Ok(()), Ok(())]);
    peer.requests.join().unwrap();
}
