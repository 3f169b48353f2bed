//! Tests of peers that try to use more than their share of a process. An unrelated flow runs in the same process, which
//! has one thread. The process stays healthy, the other flow delivers every event, and the run can be drained.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    thread,
    time::{Duration, Instant},
};

use hostile_peers::ATTACKS;
use serde_json::Value;

use crate::{
    api::{Asked, start_with},
    tremor::Scene,
};

/// Maximum memory of the process during an attack, in bytes.
const MOST: u64 = 256 << 20;
/// Number of events of the other flow that have to arrive during an attack.
const EVENTS: usize = 50;
/// Maximum time for [`EVENTS`] events to arrive, and maximum time of a drain. Without an attack, the events and the
/// drain take much less time.
const PATIENCE: Duration = Duration::from_secs(40);

const METRONOME: &str = "connectors:
  ticks: { type: metronome, config: { interval_ms: 10 } }
  output: { type: file, codec: json, postprocessors: [lines], config: { path: ticks, mode: write } }
links: [ticks -> output]";

/// Returns the sequence number and the time in ns of each event that the other flow has delivered.
fn ticks(output: &File) -> Vec<(u64, u64)> {
    let mut text = vec![0; usize::try_from(output.metadata().unwrap().len()).unwrap()];
    output.read_exact_at(&mut text, 0).unwrap();
    let text = String::from_utf8(text).unwrap();
    // The last line may be incomplete.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let tick = |line| serde_json::from_str::<Value>(line).unwrap();
    let number = |tick: &Value, key: &str| tick[key].as_u64().unwrap();
    whole.lines().map(tick).map(|it| (number(&it, "sequence"), number(&it, "ingest_ns"))).collect()
}

/// Waits until the other flow has delivered `count` events, and checks repeatedly that the process is healthy.
#[track_caller]
fn until_delivered(asked: &Asked, output: &File, count: usize) {
    let start = Instant::now();
    while ticks(output).len() < count {
        let (status, body) = asked.request("GET", "/healthz");
        assert_eq!(status, 200, "{body}");
        let delivered = ticks(output).len();
        assert!(start.elapsed() < PATIENCE, "{delivered} of {count} events of the other flow");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the maximum memory that a process has had, in bytes.
fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Runs the attack `name` on a process with one thread, and checks the other flow of the process.
#[track_caller]
fn survives(name: &str) {
    let attack = ATTACKS.iter().find(|attack| attack.name == name).unwrap();
    let scene = Scene::new(METRONOME);
    let folder = scene.path().to_owned();
    let peer = attack.prepare(&folder, "attacked.yaml").unwrap();
    let flows = ["--drain-timeout", "3", "flow.yaml", "attacked.yaml"];
    let asked = start_with(scene, &flows, 2, |command| {
        command.env("TREMOR_THREADS", "1").env("TREMOR_LOG", "info")
    });
    let attacker = attack.start(peer);
    crate::peer::wait_until(|| folder.join("ticks").exists());
    attacker.wait_for_round(PATIENCE);
    // Open the file now: it remains readable after the end of the run, which removes the folder.
    let output = File::open(folder.join("ticks")).unwrap();
    until_delivered(&asked, &output, ticks(&output).len() + EVENTS);
    let peak = peak_memory(asked.pid());
    assert!(peak < MOST, "{} MiB", peak >> 20);
    let start = Instant::now();
    let run = asked.stop("TERM");
    assert!(start.elapsed() < PATIENCE, "the drain took {:?}", start.elapsed());
    drop(attacker);
    // The status is 4 if the drain did not deliver all events of the attacker within its deadline, and 3 if messages
    // could not be decoded.
    assert!(matches!(run.status, Some(0 | 3 | 4)), "{:?}: {}", run.status, run.stderr);
    let ticks = ticks(&output);
    let count = ticks.len();
    let summary = format!("flow `flow`: {count} events in, {count} out, 0 dead-lettered");
    assert!(run.stderr.contains(&summary), "not `{summary}`: {}", run.stderr);
    let gap = ticks.windows(2).map(|pair| pair[1].1.saturating_sub(pair[0].1)).max().unwrap();
    eprintln!("{name}: {} MiB, {:?} between two events", peak >> 20, Duration::from_nanos(gap));
    assert!(ticks.iter().map(|tick| tick.0).eq(0..count as u64), "{ticks:?}");
}

/// Defines a test for each attack.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                survives(stringify!($name));
            }
        )*

        #[test]
        fn each_attack_has_a_test() {
            assert_eq!(ATTACKS.map(|attack| attack.name), [$(stringify!($name)),*]);
        }
    };
}

tests! {
    tcp_server_endless_line_of_a_bomb,
    tcp_server_empty_lines_of_a_bomb,
    tcp_server_endless_line,
    tcp_server_lines_to_batches_of_one,
    tcp_server_half_messages,
    tcp_server_connections_that_close,
    unix_server_endless_line_of_a_bomb,
    udp_server_empty_datagrams,
    http_server_empty_bodies_with_large_headers,
    http_server_body_of_a_bomb,
    http_server_half_requests,
    ws_server_empty_messages,
    ws_server_empty_messages_to_clients_that_do_not_read,
    ws_server_half_messages,
    syslog_invalid_lines,
    syslog_invalid_datagrams,
    tcp_client_bomb_of_a_peer_that_closes,
    tcp_client_peer_that_does_not_read,
    exec_endless_line,
    file_folders_that_are_links_to_each_other,
}
