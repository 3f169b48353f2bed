//! Tests of reloads that replace connectors while their flow runs.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use hostile_peers::http::{Server, response};
use serde_json::json;

use crate::{
    api::{Asked, start_with},
    peer::{free_address, wait_until},
    tremor::Scene,
};

/// Starts the flow file `flow.yaml`, with an API.
fn run(text: &str) -> Asked {
    start_with(Scene::new(text), &["flow.yaml"], 1, |command| command)
}

fn write(asked: &Asked, text: &str) {
    fs::write(asked.path().join("flow.yaml"), text).unwrap();
}

/// Changes the flow file, and checks that a reload replaces `connectors` in the flow and nothing else.
fn replace(asked: &Asked, text: &str, connectors: &[&str]) {
    write(asked, text);
    let applied = asked.json("POST", "/v1/reload");
    assert_eq!(applied["result"], "applied", "{applied}");
    let flow = &applied["flows"][0];
    assert_eq!(flow["change"], "changed", "{applied}");
    let all = flow["connectors"].as_array().unwrap().iter();
    let replaced = all.filter(|it| it["change"] == "replaced");
    let replaced: Vec<_> = replaced.map(|it| it["connector"].as_str().unwrap()).collect();
    assert_eq!(replaced, connectors);
}

fn lines(asked: &Asked, file: &str) -> Vec<String> {
    let text = fs::read_to_string(asked.path().join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn client_keeps_its_connection_while_the_sink_is_replaced() {
    let flow = |to: usize| {
        format!(
            "connectors:
  input:
    {{ type: tcp_server, codec: string, preprocessors: [lines], config: {{ listen: '127.0.0.1:0' }} }}
  output:
    {{ type: file, codec: string, postprocessors: [lines], config: {{ path: out-{to}, mode: append }} }}
links: [input -> output]
"
        )
    };
    let mut asked = run(&flow(0));
    let mut client = TcpStream::connect(asked.listens()).unwrap();
    for round in 1..=20 {
        writeln!(client, "before {round}").unwrap();
        replace(&asked, &flow(round), &["output"]);
        writeln!(client, "after {round}").unwrap();
    }
    let expected: BTreeSet<String> =
        (1..=20).flat_map(|round| [format!("before {round}"), format!("after {round}")]).collect();
    wait_until(|| {
        let all = (0..=20).flat_map(|round| lines(&asked, &format!("out-{round}")));
        all.collect::<BTreeSet<_>>() == expected
    });
    assert!(lines(&asked, "out-20").contains(&"after 20".to_owned()));
    let flow = asked.json("GET", "/v1/flows/flow");
    let input = flow["connectors"].as_array().unwrap().iter().find(|it| it["name"] == "input");
    assert_eq!(input.unwrap()["restarts"], 0, "{flow}");
    let components = flow["components"].as_array().unwrap();
    let input = components.iter().find(|it| it["name"] == "input").unwrap();
    assert_eq!(input["events"]["taken"], 40, "the counts continue");
    drop(client);
    asked.end();
}

#[test]
fn sink_that_is_down_gets_another_address() {
    const COUNT: usize = 20_000;
    for queue in ["max_events: 10", "disk: { path: queue, max_bytes: 64MiB }"] {
        let flow = |address: &str| {
            format!(
                "connectors:
  input:
    {{ type: tcp_server, codec: string, preprocessors: [lines], config: {{ listen: '127.0.0.1:0' }} }}
  output:
    type: http_client
    codec: string
    postprocessors: [lines]
    in_flight: 1
    queue: {{ {queue} }}
    config: {{ url: 'http://{address}/' }}
links: [input -> output]
"
            )
        };
        // The system accepts the connection, and nobody answers.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let received = Arc::<Mutex<String>>::default();
        let bodies = received.clone();
        let works = Server::start(move |request| {
            bodies.lock().unwrap().push_str(&request.text());
            response("200 OK", "")
        });
        let mut asked = run(&flow(&silent.local_addr().unwrap().to_string()));
        let mut client = TcpStream::connect(asked.listens()).unwrap();
        let sends = thread::spawn(move || {
            (0..COUNT).for_each(|number| writeln!(client, "{number}").unwrap());
            client
        });
        let connectors = asked.until("/v1/flows/flow", |flow| {
            let mut all = flow["connectors"].as_array().unwrap().iter();
            let is_full = all.any(|it| it["waits_for"][0]["reason"] == "queue full");
            let mut components = flow["components"].as_array().unwrap().iter();
            let output = components.find(|it| it["name"] == "output").unwrap();
            let is_waiting = output["events"]["in_flight"].as_i64().unwrap() > 0;
            is_waiting && (is_full || queue.starts_with("disk"))
        });
        replace(&asked, &flow(&works.address().to_string()), &["output"]);
        let count = || received.lock().unwrap().lines().count();
        wait_until(|| count() >= COUNT);
        let numbers: Vec<_> = (0..COUNT).map(|number| number.to_string()).collect();
        assert_eq!(received.lock().unwrap().lines().collect::<Vec<_>>(), numbers, "{connectors}");
        drop(sends.join().unwrap());
        asked.end();
    }
}

/// Returns a flow with three servers, each of which writes to a file of its own. A server that cannot listen fails.
fn servers(addresses: [&str; 3]) -> String {
    let (mut connectors, mut links) = (Vec::new(), Vec::new());
    for (name, address) in ["one", "two", "three"].into_iter().zip(addresses) {
        connectors.push(format!(
            "  {name}:
    type: tcp_server
    codec: string
    preprocessors: [lines]
    reconnect: {{ attempts: 0 }}
    config: {{ listen: '{address}' }}
  to-{name}: {{ type: file, codec: string, postprocessors: [lines], config: {{ path: {name}, mode: append }} }}
"
        ));
        links.push(format!("{name} -> to-{name}"));
    }
    format!("connectors:\n{}links: [{}]\n", connectors.concat(), links.join(", "))
}

/// Sends a line to each of the servers, and waits until they have written it to their files.
fn assert_listen(asked: &Asked, addresses: [&str; 3], line: &str) {
    for (name, address) in ["one", "two", "three"].into_iter().zip(addresses) {
        let client = TcpStream::connect(address);
        let mut client = client.unwrap_or_else(|error| panic!("{line}, {name}: {error}"));
        writeln!(client, "{line}").unwrap();
        wait_until(|| lines(asked, name).iter().any(|it| it == line));
    }
}

#[test]
fn servers_exchange_their_ports_in_one_reload() {
    let [a, b, c] = [(); 3].map(|()| free_address());
    let asked = run(&servers([&a, &b, &c]));
    while asked.request("GET", "/readyz").0 != 200 {}
    assert_listen(&asked, [&a, &b, &c], "first");
    replace(&asked, &servers([&b, &c, &a]), &["one", "two", "three"]);
    assert_listen(&asked, [&b, &c, &a], "second");

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    write(&asked, &servers([&a, &taken.local_addr().unwrap().to_string(), &b]));
    let (status, body) = asked.request("POST", "/v1/reload");
    assert_eq!(status, 422, "{body}");
    for part in [
        "the flows of before were restored",
        "connector `two` of flow `flow` failed: ",
        "connections were closed: connector `one` of flow `flow`, connector `two` of flow",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    assert_listen(&asked, [&b, &c, &a], "third");
    let status = asked.json("GET", "/v1/flows");
    assert_eq!(status["reload"]["last"]["result"], "restored");
    assert_eq!(status["flows"][0]["state"], "running");

    drop(taken);
    write(&asked, &servers([&b, &c, &a]));
    assert_eq!(asked.json("POST", "/v1/reload")["result"], "unchanged");
    asked.end();
}

#[test]
fn dry_run_names_replaced_connectors_and_their_keys() {
    let flow = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: file, codec: json, postprocessors: [lines], config: { path: out, mode: append } }
links: [ticks -> output]
";
    let asked = run(flow);
    let other = flow.replace("path: out", "path: other").replace("mode: append", "mode: write");
    write(&asked, &other);
    let printed = asked.tremor(&["reload", "--dry-run"]);
    printed.expect(0, &[]);
    let expected = "changed   flow
  replaced  output: `config.mode`, `config.path` have changed
planned
";
    assert_eq!(printed.stdout, expected);
    assert!(!asked.path().join("other").exists(), "a dry run changes nothing");
    for (from, to, reason) in [
        ("codec: json", "codec: json, queue: { max_events: 7 }", "`queue` of `output` has changed"),
        (
            "  output",
            "  more: { type: metronome, config: { interval_ms: 1 } }\n  output",
            "`links` has changed, the connector `more` was added, and the source `more` was added",
        ),
    ] {
        let links = if from == "  output" {
            "[ticks -> output, more -> output]"
        } else {
            "[ticks -> output]"
        };
        write(&asked, &flow.replace(from, to).replace("[ticks -> output]", links));
        let planned = asked.json("POST", "/v1/reload?dry_run=true");
        let replaced = json!([{ "flow": "flow", "change": "replaced", "reason": reason }]);
        assert_eq!(planned["flows"], replaced);
    }
    write(&asked, &other);
    asked.tremor(&["reload"]).expect(0, &[]);
    wait_until(|| !lines(&asked, "other").is_empty());
    let log = asked.end();
    let logged =
        "changed `flow`: replaced `output`, because `config.mode`, `config.path` have changed";
    assert!(log.contains(logged), "{log}");
}

#[test]
fn connector_whose_constructor_fails_changes_nothing() {
    let flow = |more: &str| {
        format!(
            "connectors:
  ticks: {{ type: metronome, config: {{ interval_ms: 1 }} }}
  output: {{ type: tcp_client, codec: json, postprocessors: [lines], config: {{ address: '127.0.0.1:9'{more} }} }}
links: [ticks -> output]
"
        )
    };
    let asked = run(&flow(""));
    write(&asked, &flow(", tls: { ca: missing.pem }"));
    let (status, body) = asked.request("POST", "/v1/reload");
    assert_eq!(status, 422, "{body}");
    assert!(body.contains("nothing has changed") && body.contains("missing.pem"), "{body}");
    let flow = asked.json("GET", "/v1/flows/flow");
    let output = &flow["connectors"][1];
    assert_eq!((&output["name"], &output["restarts"]), (&json!("output"), &json!(0)), "{flow}");
    asked.end();
}
