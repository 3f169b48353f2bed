//! Tests against a collector whose token has indexer acknowledgement. It forgets an acknowledgement that it has reported,
//! and does not know the IDs from before its restart, as the documentation of Splunk says.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use serde_json::{Value as Json, json};
use tremor_pdk::{
    ErrorPolicy,
    testing::{Connection, TestHost, batch_of},
};

use super::SplunkHec;
use crate::testing::{Reply, Request, Server, exceptions};

/// IDs of accepted requests that were not reported as acknowledged, each with the number of questions before it is
/// acknowledged.
type Pending = BTreeMap<u64, usize>;

/// The next ID and the pending ones of each channel. A restart of the collector clears them.
type Channels = BTreeMap<String, (u64, Pending)>;

/// Starts a collector. The events of a request are indexed after `questions` questions. `judge` may answer a request
/// that the collector then does not process.
fn indexer(
    questions: usize,
    judge: impl Fn(&Request, &mut Channels) -> Option<Reply> + Send + Sync + 'static,
) -> Server {
    let state = Arc::new(Mutex::new(Channels::new()));
    Server::start(move |request| {
        let channels = &mut *state.lock().unwrap();
        if let Some(reply) = judge(request, channels) {
            return reply;
        }
        let (next, pending) = channels.entry(channel(request)).or_default();
        if request.target() == "/services/collector/event" {
            pending.insert(*next, questions);
            *next += 1;
            let answer = json!({ "text": "Success", "code": 0, "ackId": *next - 1 });
            return Reply::ok(answer.to_string());
        }
        assert_eq!(request.target(), "/services/collector/ack");
        Reply::ok(json!({ "acks": acknowledged(request, pending) }).to_string())
    })
}

fn channel(request: &Request) -> String {
    let name = "x-splunk-request-channel: ";
    let channel = request.head.lines().find_map(|line| line.strip_prefix(name));
    channel.unwrap_or_else(|| panic!("no channel: {}", request.head)).to_owned()
}

fn acknowledged(request: &Request, pending: &mut Pending) -> BTreeMap<String, bool> {
    let question: Json = serde_json::from_slice(&request.body).unwrap();
    let ids = question["acks"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap());
    let mut is_indexed = |id| match pending.get_mut(&id) {
        Some(0) => pending.remove(&id).is_some(),
        Some(questions) => {
            *questions -= 1;
            false
        }
        None => false,
    };
    ids.map(|id| (id.to_string(), is_indexed(id))).collect()
}

fn client(server: &Server, keys: &str) -> Connection {
    let config = format!(
        r#"{{ "url": "http://{}/", "token": "hidden", "acknowledgement": "indexer" {keys} }}"#,
        server.address
    );
    TestHost::new().connect::<SplunkHec>(&config).unwrap()
}

/// Returns the numbers of requests with events, and of questions.
fn count(server: &Server) -> (usize, usize) {
    let requests = server.requests();
    let questions = requests.iter().filter(|it| it.target().ends_with("/ack")).count();
    (requests.len() - questions, questions)
}

#[test]
fn event_is_delivered_once_its_indexer_acknowledges_it() {
    let server = indexer(2, |_, _| None);
    let mut client = client(&server, "");
    client.deliver(&batch_of(&["1", "2"])).unwrap();
    assert_eq!(count(&server), (1, 3));
    client.deliver(&batch_of(&["3"])).unwrap();
    assert_eq!(count(&server), (1, 3));
}

/// The collector numbers the requests of each channel. The channel is free for another request after the acknowledgement.
#[test]
fn question_has_the_channel_of_its_request() {
    let server = indexer(1, |_, _| None);
    let mut client = client(&server, "");
    client.deliver(&batch_of(&["1"])).unwrap();
    client.deliver(&batch_of(&["2"])).unwrap();
    let requests = server.requests();
    assert_eq!(requests.iter().map(channel).collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(requests.last().unwrap().text(), r#"{"acks":[1]}"#);
}

#[test]
fn questions_continue_while_the_server_fails() {
    let failures = Mutex::new(vec![
        Reply::Part("HTTP/1.1 200 OK\r\n"),
        Reply::With(503, "", r#"{"text":"Server is busy","code":9}"#.to_owned()),
        Reply::ok("<html>"),
    ]);
    let server = indexer(0, move |request, _| {
        if request.target().ends_with("/ack") { failures.lock().unwrap().pop() } else { None }
    });
    client(&server, "").deliver(&batch_of(&["1"])).unwrap();
    assert_eq!(count(&server), (1, 4));
}

#[test]
fn events_of_an_unknown_id_are_sent_again() {
    let is_first = Mutex::new(true);
    let server = indexer(0, move |request, channels| {
        let is_question = request.target().ends_with("/ack");
        if is_question && std::mem::take(&mut *is_first.lock().unwrap()) {
            // The server is restarted, and forgets what it has accepted.
            channels.clear();
        }
        None
    });
    let mut client = client(&server, r#", "acknowledgement_timeout": "300ms""#);
    let again = exceptions(client.deliver(&batch_of(&["1", "2"])));
    let error = &again[0].error;
    assert_eq!(error.policy(), ErrorPolicy::RETRY);
    assert!(error.to_string().contains("did not confirm within 300ms"), "{error}");
    assert_eq!(again.iter().flat_map(|it| it.events.clone()).count(), 2);
    client.deliver(&batch_of(&["1", "2"])).unwrap();
    assert_eq!(count(&server).0, 2);
}

#[test]
fn accepted_request_without_an_id_ends_the_connector() {
    let server = Server::start(|_| Reply::ok(r#"{"text":"Success","code":0}"#));
    let Err(undelivered) = client(&server, "").deliver(&batch_of(&["1"])) else {
        panic!("the delivery has to fail");
    };
    let text = format!("{undelivered:?}");
    assert!(text.contains("enable indexer acknowledgement for the token"), "{text}");
    assert_eq!(count(&server), (1, 0), "a repetition would be another copy of the event");
}

#[test]
fn question_goes_below_the_path_of_the_url() {
    let server = Server::start(|request| match request.target() {
        "/a/services/collector/event?x=1" => Reply::ok(r#"{"ackID":5}"#),
        target => {
            assert_eq!(
                (target, request.text()),
                ("/a/services/collector/ack?x=1", r#"{"acks":[5]}"#)
            );
            Reply::ok(r#"{"acks":{"5":true}}"#)
        }
    });
    let address = format!("http://{}/a?x=1", server.address);
    let config = format!(r#"{{ "url": "{address}", "token": "t", "acknowledgement": "indexer" }}"#);
    let mut client = TestHost::new().connect::<SplunkHec>(&config).unwrap();
    client.deliver(&batch_of(&["1"])).unwrap();
    assert_eq!(server.requests().len(), 2);
}
