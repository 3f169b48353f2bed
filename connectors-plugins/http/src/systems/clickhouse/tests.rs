//! Tests against a server that answers as `ClickHouse` does.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tremor_pdk::{
    ErrorPolicy,
    net::percent_decode,
    testing::{Connection, TestHost, batch_of, conformance},
};

use super::ClickHouse;
use crate::testing::{Reply, Request, Server, exceptions};

fn client(server: &Server, keys: &str) -> Connection {
    let host = TestHost::new();
    host.follow_real_time();
    let config = format!(r#"{{ "url": "http://{}", "table": "t" {keys} }}"#, server.address);
    host.connect::<ClickHouse>(&config).unwrap()
}

/// Returns the parameters of the query.
fn parameters(request: &Request) -> BTreeMap<String, String> {
    let (path, query) = request.target().split_once('?').unwrap();
    assert_eq!(path, "/");
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), percent_decode(value).unwrap())).collect()
}

fn exception(status: u16, code: u32) -> Reply {
    let text = format!("Code: {code}. DB::Exception: why. (NAME)\n");
    Reply::With(status, "", text)
}

#[test]
fn request_has_statement_settings_and_rows() {
    let server = Server::start(|_| Reply::ok(""));
    let host = TestHost::new();
    host.follow_real_time();
    let config = format!(
        r#"{{ "url": "http://{}/?x=y", "database": "d.b", "table": "a`b\\c", "user": "u", "password": "p{{w}}",
            "async_insert": true, "settings": {{ "max_insert_threads": "2", "date_time_input_format": "basic" }} }}"#,
        server.address
    );
    let mut client = host.connect::<ClickHouse>(&config).unwrap();
    client.deliver(&batch_of(&["{\"n\":1}", "{\n\"n\":2}\n"])).unwrap();
    let requests = server.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    let mut found = parameters(request);
    let token = found.remove("insert_deduplication_token").unwrap();
    assert_eq!(token.len(), 32);
    let expected = [
        ("async_insert", "1"),
        ("date_time_input_format", "basic"),
        ("max_insert_threads", "2"),
        ("query", "INSERT INTO `d.b`.`a\\`b\\\\c` FORMAT JSONEachRow"),
        ("wait_end_of_query", "1"),
        ("wait_for_async_insert", "1"),
        ("x", "y"),
    ];
    assert_eq!(found.iter().map(|(a, b)| (&**a, &**b)).collect::<Vec<_>>(), expected);
    for line in ["x-clickhouse-user: u", "x-clickhouse-key: p{w}"] {
        assert!(request.has(line), "{}", request.head);
    }
    assert_eq!(request.text(), "{\"n\":1}\n{ \"n\":2}\n");
}

/// The connection is cut after the server has written the rows, which is the worst case.
#[test]
fn rows_that_are_sent_again_are_written_once() {
    let state = Arc::new(Mutex::new((HashSet::new(), Vec::new())));
    let written = state.clone();
    let server = Server::start(move |request| {
        let (tokens, rows) = &mut *written.lock().unwrap();
        if tokens.insert(parameters(request)["insert_deduplication_token"].clone()) {
            rows.push(request.text().to_owned());
            return Reply::Part("HTTP/1.1 200 OK\r\nContent-Le");
        }
        Reply::ok("")
    });
    let mut client = client(&server, "");
    for batch in [batch_of(&["{\"n\":1}"]), batch_of(&["{\"n\":2}"])] {
        let again = exceptions(client.deliver(&batch));
        assert_eq!(again[0].error.policy(), ErrorPolicy::RETRY);
        client.deliver(&batch).unwrap();
    }
    assert_eq!(state.lock().unwrap().1, ["{\"n\":1}\n", "{\"n\":2}\n"]);
}

#[test]
fn token_can_be_left_out() {
    let server = Server::start(|_| Reply::ok(""));
    client(&server, r#", "deduplicate": false"#).deliver(&batch_of(&["{}"])).unwrap();
    let found = parameters(&server.requests()[0]);
    let names: Vec<_> = found.keys().map(|it| &**it).collect();
    assert_eq!(names, ["date_time_input_format", "query", "wait_end_of_query"]);
}

#[test]
fn row_that_is_refused_goes_to_err_alone() {
    let server = Server::start(|request| {
        if request.text().contains("bad") { exception(400, 27) } else { Reply::ok("") }
    });
    let mut messages: Vec<_> = (0..50).map(|number| format!(r#"{{"n":{number}}}"#)).collect();
    messages[20] = r#"{"n":"bad"}"#.to_owned();
    let refused = exceptions(client(&server, "").deliver(&batch_of(&messages)));
    let [refused] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(
        (refused.events.clone(), refused.error.policy()),
        (20..21, ErrorPolicy::DEAD_LETTER)
    );
    let text = refused.error.to_string();
    assert!(text.contains("answered with 400: Code: 27. DB::Exception: why. (NAME)"), "{text}");
}

#[test]
fn code_decides_whether_the_connector_or_a_row_is_wrong() {
    const LETTER: ErrorPolicy = ErrorPolicy::DEAD_LETTER;
    const RETRY: ErrorPolicy = ErrorPolicy::RETRY;
    for (status, code, policy, part) in [
        (400, 6, LETTER, "Code: 6."),
        (400, 117, LETTER, "Code: 117."),
        (500, 349, LETTER, "Code: 349."),
        (500, 469, LETTER, "Code: 469."),
        (404, 60, RETRY, "check `table` and `database`"),
        (404, 81, RETRY, "check `table` and `database`"),
        (404, 115, RETRY, "check `settings`"),
        (400, 62, RETRY, "Code: 62."),
        (403, 516, RETRY, "check `user` and `password`"),
        (401, 194, RETRY, "check `user` and `password`"),
        (403, 497, RETRY, "privileges of `user`"),
        (408, 159, RETRY, "Code: 159."),
        (500, 241, RETRY, "Code: 241."),
        (500, 252, RETRY, "Code: 252."),
        (500, 243, RETRY, "Code: 243."),
    ] {
        for named in [true, false] {
            let server = Server::start(move |_| match (named, exception(status, code)) {
                (true, Reply::With(status, _, body)) => {
                    let header = format!("X-ClickHouse-Exception-Code: {code}\r\n");
                    Reply::With(status, header.leak(), body)
                }
                (_, reply) => reply,
            });
            let refused = exceptions(client(&server, "").deliver(&batch_of(&["{}"])));
            let error = &refused[0].error;
            assert_eq!(error.policy(), policy, "{code}: {error}");
            assert!(error.to_string().contains(part), "{code}: {error}");
        }
    }
}

#[test]
fn status_without_exception_decides() {
    for (status, policy) in [
        (400, ErrorPolicy::DEAD_LETTER),
        (429, ErrorPolicy::RETRY),
        (502, ErrorPolicy::RETRY),
        (503, ErrorPolicy::RETRY),
    ] {
        let server = Server::start(move |_| Reply::With(status, "", "<html>".into()));
        let refused = exceptions(client(&server, "").deliver(&batch_of(&["{}"])));
        assert_eq!(refused[0].error.policy(), policy, "{status}");
    }
}

#[test]
fn exception_after_a_success_is_read() {
    for reply in [
        exception(200, 241),
        Reply::With(200, "X-ClickHouse-Exception-Code: 241\r\n", String::new()),
    ] {
        let server = Server::start(move |_| reply.clone());
        let again = exceptions(client(&server, "").deliver(&batch_of(&["{}", "{}"])));
        assert_eq!((again.len(), again[0].events.clone()), (1, 0..2));
        assert_eq!(again[0].error.policy(), ErrorPolicy::RETRY);
        assert!(again[0].error.to_string().contains("241"), "{}", again[0].error);
    }
}

#[test]
fn event_that_is_not_an_object_is_refused() {
    let server = Server::start(|_| Reply::ok(""));
    let refused = exceptions(client(&server, "").deliver(&batch_of(&["[1]", "", "{1}", "{}"])));
    assert!(refused.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER), "{refused:?}");
    assert_eq!(refused.iter().map(|it| it.events.len()).sum::<usize>(), 3);
    assert_eq!(server.requests()[0].text(), "{}\n");
}

#[test]
fn requested_delay_is_kept() {
    let server = Server::start(|_| Reply::With(503, "Retry-After: 7\r\n", String::new()));
    let mut client = client(&server, "");
    for _ in 0..2 {
        let again = exceptions(client.deliver(&batch_of(&["{}"])));
        assert!(again[0].error.delay() > Duration::from_secs(5), "{:?}", again[0].error.delay());
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn error_does_not_show_the_password() {
    let server = Server::start(|_| Reply::With(500, "", "Code: 241. hidden".into()));
    let mut client = client(&server, r#", "user": "u", "password": "hidden""#);
    let text = exceptions(client.deliver(&batch_of(&["{}"])))[0].error.to_string();
    assert!(text.contains("[redacted]") && !text.contains("hidden"), "{text}");
}

#[test]
fn invalid_configuration_is_rejected() {
    for (keys, part) in [
        (r#""database": "d""#, "missing field `table`"),
        (r#""table": """#, "invalid `table`: expected a name"),
        (r#""table": "{t}""#, "`table`: nothing replaces `{t}`"),
        (r#""table": "t", "database": """#, "invalid `database`: expected a name"),
        (r#""table": "t", "password": "hidden\n""#, "invalid `password`"),
        (r#""table": "t", "settings": { "query": "x" }"#, "invalid `settings` entry `query`"),
        (r#""table": "t", "settings": { "a&b": "x" }"#, "invalid `settings` entry `a&b`"),
        (r#""table": "t", "user": "u", "auth": { "bearer": "x" }"#, "`user` is set as well"),
        (r#""table": "t", "headers": { "X-ClickHouse-Key": "x" }"#, "`password` sets this header"),
    ] {
        let config = format!(r#"{{ "url": "http://a", {keys} }}"#);
        let error = TestHost::new().component::<ClickHouse>(&config).err().unwrap().to_string();
        assert!(error.contains(part) && !error.contains("hidden"), "{error}");
    }
}

#[test]
fn connector_passes_conformance_checks() {
    conformance::connector::<ClickHouse>(r#"{ "url": "http://127.0.0.1:1", "table": "t" }"#)
        .expect_no_faults();
}
