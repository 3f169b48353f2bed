//! Tests of reloads that change the links of a flow that continues.

use std::{
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    api::{Asked, start_with},
    peer::wait_until,
    tremor::Scene,
};

/// A source of lines.
const INPUT: &str = "  input: { type: tcp_server, codec: string, preprocessors: [lines], config: { listen: '127.0.0.1:0' } }
";

/// Returns a sink that writes lines to a file of its name.
fn file(name: &str) -> String {
    format!(
        "  {name}: {{ type: file, codec: string, postprocessors: [lines], config: {{ path: {name}, mode: append }} }}
"
    )
}

/// Returns a flow from `input` with these sinks and links.
fn flow(connectors: &str, links: &str) -> String {
    format!("connectors:\n{INPUT}{connectors}links: [{links}]\n")
}

fn run(text: &str) -> Asked {
    start_with(Scene::new(text), &["flow.yaml"], 1, |command| command)
}

fn write(asked: &Asked, text: &str) {
    fs::write(asked.path().join("flow.yaml"), text).unwrap();
}

/// Changes the flow file, and checks that a reload lets the flow continue. Returns the changes of its connectors, without
/// those that are kept.
fn reload(asked: &Asked, text: &str) -> Vec<Value> {
    write(asked, text);
    let applied = asked.json("POST", "/v1/reload");
    assert_eq!(applied["result"], "applied", "{applied}");
    let flow = &applied["flows"][0];
    assert_eq!(flow["change"], "changed", "{applied}");
    let connectors = flow["connectors"].as_array().unwrap().iter();
    connectors.filter(|it| it["change"] != "kept").cloned().collect()
}

fn lines(asked: &Asked, name: &str) -> Vec<String> {
    let text = fs::read_to_string(asked.path().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn connector(asked: &Asked, name: &str) -> Value {
    let flow = asked.json("GET", "/v1/flows/flow");
    let mut connectors = flow["connectors"].as_array().unwrap().iter();
    connectors.find(|it| it["name"] == name).cloned().unwrap_or_default()
}

/// Returns the counts of a component, or `null` if the flow does not have it.
fn counts(asked: &Asked, name: &str) -> Value {
    let flow = asked.json("GET", "/v1/flows/flow");
    let mut components = flow["components"].as_array().unwrap().iter();
    components.find(|it| it["name"] == name).map_or(Value::Null, |it| it["events"].clone())
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:0>1000}")).collect()
}

#[test]
fn sink_that_is_down_is_removed_while_its_source_waits() {
    const COUNT: usize = 30_000;
    let down = TcpListener::bind("127.0.0.1:0").unwrap();
    let down_sink = format!(
        "  b:
    type: tcp_client
    codec: string
    postprocessors: [lines]
    queue: {{ max_events: 10 }}
    config: {{ address: '{}' }}
",
        down.local_addr().unwrap()
    );
    let mut asked = run(&flow(&(file("a") + &down_sink), "input -> a, input -> b"));
    let accepted = down.accept().unwrap();
    let mut client = TcpStream::connect(asked.listens()).unwrap();
    let expected = numbered(COUNT);
    let sends = {
        let lines = expected.clone();
        thread::spawn(move || {
            lines.iter().for_each(|line| writeln!(client, "{line}").unwrap());
            client
        })
    };
    asked.until("/v1/flows/flow", |flow| {
        let mut all = flow["connectors"].as_array().unwrap().iter();
        all.any(|it| it["waits_for"][0]["reason"] == "queue full")
    });
    drop((down, accepted));
    let begin = Instant::now();
    let changes = reload(&asked, &flow(&file("a"), "input -> a"));
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!((&changes[0]["connector"], &changes[0]["change"]), (&json!("b"), &json!("removed")));
    assert_eq!(changes.len(), 1);
    assert!(changes[0]["reason"].as_str().unwrap().contains("events were lost"), "{changes:?}");
    let client = sends.join().unwrap();
    wait_until(|| lines(&asked, "a").len() >= COUNT);
    assert_eq!(lines(&asked, "a"), expected, "each line once, and in order");
    let input = connector(&asked, "input");
    assert_eq!((&input["restarts"], &input["state"]), (&json!(0), &json!("running")));
    assert_eq!(counts(&asked, "input")["taken"], COUNT);
    assert_eq!(counts(&asked, "b"), Value::Null);
    drop(client);
    // The events that `b` had not delivered are lost.
    let ended = asked.stop("TERM");
    ended.expect(ended.status.unwrap(), &["of flow `flow` failed and are lost"]);
    assert_ne!(ended.status, Some(0));
}

#[test]
fn client_notices_nothing_while_sinks_come_and_go() {
    let one = file("one");
    let mut asked = run(&flow(&one, "input -> one"));
    let mut client = TcpStream::connect(asked.listens()).unwrap();
    let sent = AtomicUsize::new(0);
    let mut send = || {
        let number = sent.fetch_add(1, Ordering::Relaxed);
        writeln!(client, "{number}").unwrap();
        number.to_string()
    };
    let mut both = Vec::new();
    for _ in 0..10 {
        let changes =
            reload(&asked, &flow(&(one.clone() + &file("two")), "input -> one, input -> two"));
        assert_eq!(changes, [json!({ "connector": "two", "change": "added" })]);
        both.push(send());
        wait_until(|| lines(&asked, "two") == both);
        let changes = reload(&asked, &flow(&one, "input -> one"));
        assert_eq!(changes, [json!({ "connector": "two", "change": "removed" })]);
        let only = send();
        wait_until(|| lines(&asked, "one").contains(&only));
    }
    assert_eq!(lines(&asked, "one"), (0..20).map(|it| it.to_string()).collect::<Vec<_>>());
    assert_eq!(lines(&asked, "two"), both);
    assert_eq!(connector(&asked, "input")["restarts"], 0);
    drop(client);
    let log = asked.end();
    assert!(log.contains("added `two`") && log.contains("removed `two`"), "{log}");
}

#[test]
fn changed_link_and_pipeline_leave_the_source_connected() {
    let sinks = file("one") + &file("two") + &file("failed");
    let links = |to: &str| {
        format!("input -> main -> {to}, input/err -> failed, main/err -> one, main/err -> two")
    };
    let text = |keeps: &str, to: &str| {
        let operator = format!("{{ type: filter, config: {{ field: '', equals: {keeps} }} }}");
        let pipelines = format!("pipelines:\n  main: {{ operators: [{operator}] }}\n");
        flow(&sinks, &links(to)).replace("links:", &(pipelines + "links:"))
    };
    let mut asked = run(&text("a", "one"));
    let mut client = TcpStream::connect(asked.listens()).unwrap();
    writeln!(client, "a\nb").unwrap();
    wait_until(|| lines(&asked, "one") == ["a"]);
    assert!(reload(&asked, &text("a", "two")).is_empty());
    writeln!(client, "a\nb").unwrap();
    wait_until(|| lines(&asked, "two") == ["a"]);
    write(&asked, &text("b", "two"));
    let printed = asked.tremor(&["reload", "--dry-run"]);
    assert_eq!(printed.stdout, "changed   flow: the pipeline `main` has changed\nplanned\n");
    assert!(reload(&asked, &text("b", "two")).is_empty());
    writeln!(client, "a\nb").unwrap();
    wait_until(|| lines(&asked, "two") == ["a", "b"]);
    assert_eq!(lines(&asked, "one"), ["a"]);
    assert_eq!(counts(&asked, "main")["taken"], 6, "the counts continue");
    drop(client);
    asked.end();
}

#[test]
fn added_sink_that_fails_leaves_the_flow_as_it_was() {
    let one = file("one");
    let mut asked = run(&flow(&one, "input -> one"));
    let mut client = TcpStream::connect(asked.listens()).unwrap();
    writeln!(client, "before").unwrap();
    wait_until(|| lines(&asked, "one") == ["before"]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let added = format!(
        "  two: {{ type: tcp_client, codec: string, reconnect: {{ attempts: 0 }}, config: {{ address: '{closed}' }} }}
"
    );
    write(&asked, &flow(&(one + &added), "input -> one, input -> two"));
    let (status, body) = asked.request("POST", "/v1/reload");
    assert_eq!(status, 422, "{body}");
    assert!(body.contains("connector `two` of flow `flow` failed"), "{body}");
    writeln!(client, "after").unwrap();
    wait_until(|| lines(&asked, "one") == ["before", "after"]);
    assert_eq!((counts(&asked, "two"), connector(&asked, "two")), (Value::Null, Value::Null));
    drop(client);
    asked.end();
}

#[test]
fn queue_on_disk_of_removed_sink_stays() {
    let down = TcpListener::bind("127.0.0.1:0").unwrap();
    let sink = format!(
        "  b:
    type: tcp_client
    codec: string
    postprocessors: [lines]
    queue: {{ disk: {{ path: queue, max_bytes: 64MiB }} }}
    config: {{ address: '{}' }}
",
        down.local_addr().unwrap()
    );
    let mut asked = run(&flow(&(file("a") + &sink), "input -> a, input -> b"));
    let accepted = down.accept().unwrap();
    drop((down, accepted));
    let mut client = TcpStream::connect(asked.listens()).unwrap();
    (0..100).for_each(|number| writeln!(client, "{number}").unwrap());
    wait_until(|| lines(&asked, "a").len() == 100);
    let changes = reload(&asked, &flow(&file("a"), "input -> a"));
    let reason = changes[0]["reason"].as_str().unwrap();
    let folder = asked.path().join("queue").display().to_string();
    assert!(reason.contains("events stay on disk in ") && reason.contains(&folder), "{reason}");
    assert!(!reason.contains("lost"), "{reason}");
    writeln!(client, "after").unwrap();
    wait_until(|| lines(&asked, "a").len() == 101);
    drop(client);
    let log = asked.end();
    assert!(log.contains("stored"), "{log}");
}
