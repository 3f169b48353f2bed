//! Tests of statuses that are not a success, and of deliveries that the peer refuses as a whole.

use std::{
    io::Write,
    net::TcpListener,
    ops::Range,
    sync::{Arc, Mutex},
    thread,
};

use tremor_pdk::{
    Batch, Delivery, ErrorKind, ErrorPolicy, Exception, Undelivered,
    testing::{Connection, TestHost, batch_of},
};

use super::{client, peer, read_request, status};

#[test]
fn wrong_configuration_is_retried_until_a_request_is_accepted() {
    let statuses = [401, 403, 404, 405, 307, 407, 200, 403, 404, 405, 307, 401, 407];
    let peer = peer(statuses.map(|it| status(it, "", "")).to_vec());
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, "");
    for (at, status) in statuses.into_iter().enumerate() {
        let delivered = client.deliver(&batch_of(&["1"])).map_err(Undelivered::into_error);
        let expected = match status {
            200 => None,
            401 | 407 => Some(ErrorPolicy::RETRY),
            _ if at < 6 => Some(ErrorPolicy::RETRY),
            _ => Some(ErrorPolicy::DEAD_LETTER),
        };
        assert_eq!(delivered.err().map(|error| error.policy()), expected, "{at}: {status}");
    }
    peer.requests.join().unwrap();
}

#[test]
fn refused_poll_is_retried_until_a_response_was_read() {
    let statuses = [401, 404, 200, 404, 401];
    let peer = peer(statuses.map(|it| status(it, "", "")).to_vec());
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, r#", "interval": "30s""#);
    let polled = statuses.map(|_| {
        host.advance(std::time::Duration::from_secs(30));
        client.pull().err().map(|error| error.policy())
    });
    let (retry, letter) = (Some(ErrorPolicy::RETRY), Some(ErrorPolicy::DEAD_LETTER));
    assert_eq!(polled, [retry, retry, None, letter, retry]);
    peer.requests.join().unwrap();
}

#[test]
fn missing_authority_file_is_an_error_of_the_connector() {
    let config = r#"{ "url": "https://127.0.0.1:1/", "tls": { "ca_file": "/does/not/exist" } }"#;
    let error = TestHost::new().connect::<super::HttpClient>(config).err().unwrap();
    assert_eq!((error.kind(), error.is_final()), (ErrorKind::CONFIGURATION, true), "{error}");
    assert!(error.to_string().contains("/does/not/exist"), "{error}");
}

/// A peer that judges each request by its body, and the bodies that it received with their
/// statuses.
struct Judge {
    address: String,
    requests: Arc<Mutex<Vec<(u16, String)>>>,
}

impl Judge {
    /// Starts the peer. `judge` returns the status for a body.
    fn start(judge: impl Fn(&str) -> u16 + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                while let Some((_, body)) = read_request(&mut stream) {
                    let body = String::from_utf8(body).unwrap();
                    let status = judge(&body);
                    seen.lock().unwrap().push((status, body));
                    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 3\r\n\r\nwhy");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            }
        });
        Self { address, requests }
    }

    fn client(&self, host: &TestHost, keys: &str) -> Connection {
        client(host, &self.address, keys)
    }

    /// Returns the statuses and bodies since the last call.
    fn requests(&self) -> Vec<(u16, String)> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    /// Returns the bodies that were accepted since the last call, one after the other.
    fn accepted(&self) -> String {
        let accepted = self.requests().into_iter().filter(|(status, _)| *status == 200);
        accepted.map(|(_, body)| body).collect()
    }
}

const NDJSON: &str = r#", "format": "ndjson""#;

fn numbers(range: Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

fn batch(events: &[String]) -> Batch {
    batch_of(&events.iter().map(|it| &**it).collect::<Vec<_>>())
}

#[track_caller]
fn exceptions(delivery: Delivery) -> Vec<Exception> {
    match delivery {
        Err(Undelivered::Some { exceptions, .. }) => exceptions,
        other => panic!("expected a delivery with exceptions, found {other:?}"),
    }
}

#[test]
fn too_large_request_is_divided_and_keeps_the_order() {
    let host = TestHost::new();
    for (format, separator) in [("ndjson", '\n'), ("array", ',')] {
        let judge = Judge::start(|body| if body.len() > 100 { 413 } else { 200 });
        let mut client = judge.client(&host, &format!(r#", "format": "{format}""#));
        let events = numbers(0..500);
        client.deliver(&batch(&events)).unwrap();
        let accepted = judge.accepted().replace("][", ",");
        let accepted = accepted.trim_matches(['[', ']', '\n']);
        assert!(accepted.split(separator).eq(events.iter().map(|it| &**it)), "{accepted}");
        let log = host.log();
        let is_logged = |it: &str| it.contains("divided a request of 500 events: `http://");
        assert!(log.iter().any(|(_, line)| is_logged(line)), "{log:?}");
    }
}

#[test]
fn single_refused_event_does_not_take_its_batch_along() {
    let judge = Judge::start(|body| if body.lines().any(|it| it == "123") { 400 } else { 200 });
    let host = TestHost::new();
    let mut client = judge.client(&host, NDJSON);
    let mut events = numbers(0..500);
    events[200] = "two\nlines".to_owned();
    let refused = exceptions(client.deliver(&batch(&events)));
    let ranges: Vec<_> = refused.iter().map(|it| it.events.clone()).collect();
    assert_eq!(ranges, [123..124, 200..201]);
    let text = refused[0].error.to_string();
    assert!(text.ends_with("answered with 400 Bad Request: why"), "{text}");
    assert!(refused.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER));
    let requests = judge.requests();
    assert!(requests.len() < 20, "{}", requests.len());
    let accepted = requests.into_iter().filter(|(status, _)| *status == 200);
    let accepted: String = accepted.map(|(_, body)| body).collect();
    events.remove(200);
    events.remove(123);
    assert!(accepted.lines().eq(events.iter().map(|it| &**it)), "{accepted}");
}

#[test]
fn peer_that_refuses_everything_is_not_asked_for_each_event() {
    let judge = Judge::start(|_| 422);
    let host = TestHost::new();
    let mut client = judge.client(&host, NDJSON);
    let refused = exceptions(client.deliver(&batch(&numbers(0..1_000))));
    let mut end = 0;
    for exception in &refused {
        assert_eq!(exception.events.start, end, "each event fails once");
        end = exception.events.end;
        assert_eq!(exception.error.policy(), ErrorPolicy::DEAD_LETTER);
    }
    assert_eq!(end, 1_000);
    let alone = judge.requests().iter().filter(|(_, body)| body.lines().count() == 1).count();
    assert_eq!(alone, 20);
    let last = refused.last().unwrap();
    assert_eq!(last.events, 20..1_000);
    let text = last.error.to_string();
    assert!(text.starts_with("not sent, because the peer refused 20 events"), "{text}");
    assert!(text.ends_with("answered with 422 Unprocessable Entity: why"), "{text}");
}

#[test]
fn outage_during_division_retries_the_remaining_events() {
    let judge = Judge::start(|body| match body.lines().collect::<Vec<_>>()[..] {
        ["7"] => 400,
        ref all if all.contains(&"7") => 413,
        ref all if all.contains(&"60") && all.len() < 60 => 503,
        _ => 200,
    });
    let host = TestHost::new();
    let mut client = judge.client(&host, NDJSON);
    let refused = exceptions(client.deliver(&batch(&numbers(0..100))));
    let [letter, again] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((letter.events.clone(), letter.error.policy()), (7..8, ErrorPolicy::DEAD_LETTER));
    assert_eq!((again.events.clone(), again.error.policy()), (50..100, ErrorPolicy::RETRY));
    let accepted = judge.accepted();
    let expected = numbers(0..50).into_iter().filter(|it| it != "7");
    assert!(accepted.lines().eq(expected.collect::<Vec<_>>().iter().map(|it| &**it)), "{accepted}");
}

#[test]
fn refusal_of_something_else_is_not_divided() {
    for (status, policy) in
        [(401, ErrorPolicy::RETRY), (409, ErrorPolicy::DEAD_LETTER), (503, ErrorPolicy::RETRY)]
    {
        let judge = Judge::start(move |_| status);
        let host = TestHost::new();
        let mut client = judge.client(&host, NDJSON);
        let refused = exceptions(client.deliver(&batch(&numbers(0..100))));
        assert_eq!((refused.len(), &refused[0].events), (1, &(0..100)));
        assert_eq!(refused[0].error.policy(), policy, "{status}");
        assert_eq!(judge.requests().len(), 1, "{status}");
    }
    let judge = Judge::start(|_| 413);
    let host = TestHost::new();
    let mut client = judge.client(&host, r#", "format": "ndjson", "retry_statuses": [413]"#);
    let refused = exceptions(client.deliver(&batch(&numbers(0..100))));
    assert_eq!(refused[0].error.policy(), ErrorPolicy::RETRY);
    assert_eq!(judge.requests().len(), 1, "a retried request is not divided");
}
