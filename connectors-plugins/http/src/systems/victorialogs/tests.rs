//! Tests against a server that answers as `VictoriaLogs` does.

use tremor_pdk::{
    ErrorPolicy,
    testing::{Connection, TestHost, batch_of, conformance},
};

use super::VictoriaLogs;
use crate::testing::{Reply, Server, exceptions};

fn client(server: &Server, path: &str, keys: &str) -> Connection {
    let host = TestHost::new();
    host.follow_real_time();
    let config = format!(r#"{{ "url": "http://{}{path}" {keys} }}"#, server.address);
    host.connect::<VictoriaLogs>(&config).unwrap()
}

fn accepting() -> Server {
    Server::start(|_| Reply::ok(""))
}

#[test]
fn request_has_parameters_and_lines() {
    let server = accepting();
    let keys = r#", "stream_fields": ["host", "a b"], "time_field": "@timestamp", "message_field": "m&n",
        "ignore_fields": ["x", "y"], "extra_fields": { "site": "b=c" }, "tenant": { "account": 12, "project": 3 }"#;
    let mut client = client(&server, "/?debug=1", keys);
    client.deliver(&batch_of(&["{\"n\":1}", "{\n  \"n\": 2\n}\n"])).unwrap();
    let requests = server.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    let expected = "/insert/jsonline?debug=1&_stream_fields=host,a%20b&_time_field=%40timestamp&_msg_field=m%26n&\
                    ignore_fields=x,y&extra_fields=site%3Db%3Dc";
    assert_eq!(request.target(), expected);
    assert!(request.has("accountid: 12") && request.has("projectid: 3"), "{}", request.head);
    assert!(request.has("content-type: application/stream+json"), "{}", request.head);
    assert_eq!(request.text(), "{\"n\":1}\n{   \"n\": 2 }\n");
}

#[test]
fn parameters_are_optional() {
    let server = accepting();
    for path in ["", "/", "/insert/jsonline", "/insert/jsonline/"] {
        client(&server, path, "").deliver(&batch_of(&["{}"])).unwrap();
        let request = server.requests().remove(0);
        assert_eq!(request.target(), "/insert/jsonline");
        assert!(!request.head.contains("accountid"), "{}", request.head);
    }
}

#[test]
fn event_that_is_not_an_object_is_refused() {
    let server = accepting();
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(100));
    let events = ["[1]", "", "{1}", "{} {}", "{\"a\":\"\u{1}\"}", &long, "{}"];
    let mut client = client(&server, "", r#", "max_body_bytes": 100"#);
    let refused = exceptions(client.deliver(&batch_of(&events)));
    let text: Vec<_> = refused.iter().map(|it| it.error.to_string()).collect();
    assert!(refused.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER), "{text:?}");
    let positions: Vec<_> = refused.into_iter().flat_map(|it| it.events).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4, 5]);
    assert_eq!(server.requests()[0].text(), "{}\n");
}

#[test]
fn refused_event_goes_to_err_alone() {
    let server = Server::start(|request| {
        let is_bad = request.text().contains("bad");
        if is_bad { Reply::With(400, "", "cannot read".into()) } else { Reply::ok("") }
    });
    let events = [r#"{"n":1}"#, r#"{"n":"bad"}"#, r#"{"n":3}"#];
    let refused = exceptions(client(&server, "", "").deliver(&batch_of(&events)));
    let [refused] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((refused.events.clone(), refused.error.policy()), (1..2, ErrorPolicy::DEAD_LETTER));
}

#[test]
fn status_of_the_response_decides_for_all_events() {
    for status in [401, 403, 404, 408, 429, 500, 503] {
        let server = Server::start(move |_| Reply::With(status, "", "no space left".into()));
        let again = exceptions(client(&server, "", "").deliver(&batch_of(&["{}", "{}"])));
        let [again] = &again[..] else { panic!("{again:?}") };
        assert_eq!((again.events.clone(), again.error.policy()), (0..2, ErrorPolicy::RETRY));
        let text = again.error.to_string();
        assert!(text.contains(&status.to_string()) && text.contains("no space left"), "{text}");
    }
}

#[test]
fn cut_response_is_retried() {
    let server = Server::start(|_| Reply::Part("HTTP/1.1 200 O"));
    let again = exceptions(client(&server, "", "").deliver(&batch_of(&["{}"])));
    assert_eq!(again[0].error.policy(), ErrorPolicy::RETRY);
}

#[test]
fn invalid_configuration_is_rejected() {
    for (keys, part) in [
        (r#""stream_fields": ["a,b"]"#, "invalid `stream_fields` entry `a,b`"),
        (r#""time_field": """#, "invalid `time_field` entry ``"),
        (r#""extra_fields": { "": "x" }"#, "invalid `extra_fields` entry `=x`"),
        (r#""message_field": "{m}""#, "`message_field`: nothing replaces `{m}`"),
        (r#""tenant": { "account": -1 }"#, "tenant"),
        (r#""tenant": { "account": 1 }, "headers": { "AccountID": "2" }"#, "sets this header"),
    ] {
        let config = format!(r#"{{ "url": "http://a", {keys} }}"#);
        let error = TestHost::new().component::<VictoriaLogs>(&config).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn connector_passes_conformance_checks() {
    conformance::connector::<VictoriaLogs>(r#"{ "url": "http://127.0.0.1:1" }"#).expect_no_faults();
}
