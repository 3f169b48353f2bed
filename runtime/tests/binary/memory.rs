//! The memory of the whole process, with a limit for all flows together.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use crate::{
    api::{Asked, start_with},
    tremor::Scene,
};

/// The limit for memory, in bytes.
const LIMIT: u64 = 32 << 20;

/// Bytes that the process may take besides its limit and the memory of an idle process.
const BEYOND: u64 = 64 << 20;

/// Returns a field of `/proc/PID/status`, in bytes.
fn memory(asked: &Asked, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", asked.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().unwrap() << 10
}

/// The sink's peer reads nothing until the source waits for memory, and then everything.
#[test]
fn memory_limit_stops_sources_until_sinks_deliver() {
    const LINES: usize = 2_000;
    const LINE: usize = 64 << 10;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let scene = Scene::new(&format!(
        "name: flood
connectors:
  input: {{ type: file, codec: string, preprocessors: [lines], config: {{ path: in, mode: read, follow: true, poll_interval: 10ms }} }}
  alive: {{ type: metronome, config: {{ interval_ms: 3600000 }} }}
  nothing: {{ type: 'null' }}
  output:
    type: tcp_client
    codec: string
    postprocessors: [lines]
    queue: {{ max_events: 100000000, max_bytes: 1GiB }}
    config: {{ address: '127.0.0.1:{port}' }}
links: [input -> output, alive -> nothing]"
    ));
    let scene = scene.write("in", b"");
    let limit = format!("{LIMIT}B");
    let asked = start_with(scene, &["--memory-limit", &limit, "flow.yaml"], 1, |command| command);
    let (mut peer, _): (TcpStream, _) = listener.accept().unwrap();
    let idle = memory(&asked, "VmRSS");
    let mut line = vec![b'x'; LINE];
    line[LINE - 1] = b'\n';
    let mut file = fs::OpenOptions::new().append(true).open(asked.path().join("in")).unwrap();
    (0..LINES).for_each(|_| file.write_all(&line).unwrap());

    let flows = asked.until("/v1/flows", |it| it["flows"][0]["memory"]["is_short"] == true);
    let memory_of = &flows["flows"][0]["memory"];
    assert_eq!(memory_of["limit"], LIMIT);
    assert!(memory_of["components"]["output"].as_u64().unwrap() > LIMIT / 2, "{memory_of}");
    let (_, metrics) = asked.request("GET", "/metrics");
    assert!(metrics.contains("tremor_memory_short{flow=\"flood\"} 1"), "{metrics}");

    let mut bytes = vec![0; 1 << 20];
    let mut left = LINES * LINE;
    while left > 0 {
        let count = peer.read(&mut bytes).unwrap();
        assert!(count > 0, "{left} bytes are missing");
        left -= count;
    }
    asked.until("/v1/flows", |it| it["flows"][0]["memory"]["is_short"] == false);
    let peak = memory(&asked, "VmHWM");
    let most = LIMIT + idle + BEYOND;
    assert!(peak <= most, "{peak} bytes of {most}, {idle} of them when idle");
    asked.end();
}

#[test]
fn invalid_memory_limit_is_rejected() {
    let scene = Scene::new("");
    for limit in ["many", "1KiB", "-1"] {
        let argument = format!("--memory-limit={limit}");
        let run = scene.tremor(&["run", "flow.yaml", &argument]);
        run.expect(2, &["expected a size of at least `16MiB`"]);
    }
}
