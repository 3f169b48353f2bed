use std::{fs, path::Path, time::Duration};

use tempfile::TempDir;
use tremor_pdk::{
    Batch, ErrorKind, Limit, Pull, Result,
    testing::{Connection, TestHost},
};

use super::Bench;

fn folder(name: &str, contents: &[u8]) -> (TempDir, TestHost) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), contents).unwrap();
    let host = TestHost::new();
    host.set_folder(folder.path());
    (folder, host)
}

fn bench(host: &TestHost, config: &str) -> Result<Connection> {
    host.connect::<Bench>(config)
}

fn messages(batch: &Batch) -> Vec<Vec<u8>> {
    batch.iter().map(|event| event.raw().unwrap().to_vec()).collect()
}

fn encoded(ingest_ns: &[u64]) -> Batch {
    let mut batch = Batch::new();
    for ns in ingest_ns {
        batch.push_message(b"four");
        batch.last_mut().unwrap().set_ingest_ns(*ns);
    }
    batch
}

fn report(folder: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(folder.join("r.json")).unwrap()).unwrap()
}

#[test]
fn every_line_is_replayed_for_each_iteration() {
    let (_folder, host) = folder("in", b"one\n\ntwo\nthree");
    let config = r#"{ "file": "in", "iterations": 2 }"#;
    let batches = bench(&host, config).unwrap().pull_all().unwrap();
    let all: Vec<_> = batches.iter().flat_map(messages).collect();
    assert_eq!(all, [b"one".as_slice(), b"two", b"three", b"one", b"two", b"three"]);
    assert!(batches[0].iter().all(|event| event.ingest_ns() == host.now_ns()));
}

#[test]
fn acknowledgements_are_received_if_configured() {
    let (_folder, host) = folder("in", b"one\n");
    for (key, takes) in [("", false), (r#", "acknowledged": true"#, true)] {
        let config = format!(r#"{{ "file": "in", "iterations": 2{key} }}"#);
        let mut source = bench(&host, &config).unwrap();
        let batches = source.pull_all().unwrap();
        let took = source.acks().is_ok_and(|acks| acks.ack(batches[0].pull()).is_ok());
        assert_eq!(took, takes);
    }
}

#[test]
fn repetition_may_end_within_a_batch() {
    let (_folder, host) = folder("in", b"1\n2\n3\n");
    let mut source = bench(&host, r#"{ "file": "in", "iterations": 3 }"#).unwrap();
    let limit = Limit { events: 4, ..Limit::default() };
    let mut pulled = Vec::new();
    loop {
        let mut batch = Batch::new();
        batch.set_limit(limit);
        let source = source.source().unwrap();
        let poll = std::future::poll_fn(|context| source.poll_pull(context, &mut batch));
        let pull = host.block_on(poll).unwrap();
        pulled.push(batch.len());
        if pull == Pull::Finished {
            break;
        }
    }
    assert_eq!(pulled, [4, 4, 1]);
}

#[test]
fn base64_lines_and_compressed_files_are_decoded() {
    let (_folder, host) = folder("in", b"AP8=\r\n/w==\n");
    let config = r#"{ "file": "in", "iterations": 1, "base64": true }"#;
    let batches = bench(&host, config).unwrap().pull_all().unwrap();
    assert_eq!(messages(&batches[0]), [b"\x00\xff".as_slice(), b"\xff"]);

    let mut compressed = Vec::new();
    let mut encoder = liblzma::write::XzEncoder::new(&mut compressed, 1);
    std::io::Write::write_all(&mut encoder, b"a\nb\n").unwrap();
    encoder.finish().unwrap();
    let (_folder, host) = self::folder("in.xz", &compressed);
    let config = r#"{ "file": "in.xz", "iterations": 1 }"#;
    let batches = bench(&host, config).unwrap().pull_all().unwrap();
    assert_eq!(messages(&batches[0]), [b"a", b"b"]);
}

#[test]
fn duration_counts_from_end_of_warm_up() {
    let (_folder, host) = folder("in", b"x\n");
    let config = r#"{ "file": "in", "duration_s": 2, "warmup_s": 0.5 }"#;
    let mut source = bench(&host, config).unwrap();
    for (advance_ms, expected) in
        [(0, Pull::Events), (2499, Pull::Events), (1, Pull::Finished), (0, Pull::Finished)]
    {
        host.advance(Duration::from_millis(advance_ms));
        let (pull, batch) = source.pull().unwrap();
        assert_eq!((pull, batch.is_empty()), (expected, expected == Pull::Finished));
    }
}

/// Returns the emission times of a batch's events, in ms after `start`.
fn sent_ms(batch: &Batch, start: u64) -> Vec<u64> {
    batch.iter().map(|event| (event.ingest_ns() - start) / 1_000_000).collect()
}

#[test]
fn late_pull_keeps_due_times_of_events() {
    let (_folder, host) = folder("in", b"x\n");
    let config = r#"{ "file": "in", "duration_s": 0.06, "warmup_s": 0.02, "rate": 100 }"#;
    let mut source = bench(&host, config).unwrap();
    let (start, idle) = (host.now_ns(), |ms| Pull::Idle(Duration::from_millis(ms)));
    for (advance_ms, expected, expected_ms) in [
        (0, Pull::Events, &[0][..]),
        (0, idle(10), &[]),
        (4, idle(6), &[]),
        (6, Pull::Events, &[10]),
        (33, Pull::Events, &[20, 30, 40]), // a late pull: the due times include the delay
        (0, idle(7), &[]),
        (60, Pull::Finished, &[50, 60, 70]), // a pull after the end: the events that were due before the end
        (0, Pull::Finished, &[]),
    ] {
        host.advance(Duration::from_millis(advance_ms));
        let (pull, batch) = source.pull().unwrap();
        assert_eq!((pull, &*sent_ms(&batch, start)), (expected, expected_ms));
    }
}

#[test]
fn full_batch_leaves_due_events_to_next_pull() {
    let (_folder, host) = folder("in", b"x\n");
    let config = r#"{ "file": "in", "iterations": 5, "rate": 1000 }"#;
    let mut source = bench(&host, config).unwrap();
    let start = host.now_ns();
    source.pull().unwrap();
    host.advance(Duration::from_secs(1));
    let mut pull = || {
        let mut batch = Batch::new();
        batch.set_limit(Limit { events: 3, ..Limit::default() });
        let source = source.source().unwrap();
        let poll = std::future::poll_fn(|context| source.poll_pull(context, &mut batch));
        (host.block_on(poll).unwrap(), sent_ms(&batch, start))
    };
    assert_eq!(pull(), (Pull::Events, vec![1, 2, 3]));
    assert_eq!(pull(), (Pull::Finished, vec![4]));
}

#[test]
fn each_event_of_a_batch_has_its_own_latency() {
    let (folder, host) = folder("in", b"x\n");
    let config = r#"{ "file": "in", "iterations": 10, "rate": 1000, "report": "r.json" }"#;
    let mut bench = bench(&host, config).unwrap();
    bench.pull().unwrap();
    host.advance(Duration::from_millis(9));
    let (_, batch) = bench.pull().unwrap();
    bench.deliver(&batch).unwrap();
    bench.stop().unwrap();
    let report = report(folder.path());
    assert_eq!((&report["events"], &report["elapsed_s"]), (&9.into(), &0.009.into()));
    // 0, 1, … 8 ms: the first event was pulled on time and is not in this batch.
    for (name, expected_ns) in [("mean", 4e6), ("p50", 4e6), ("p90", 8e6), ("max", 8e6)] {
        let found = report["latency_ns"][name].as_f64().unwrap();
        assert!((found / expected_ns - 1.0).abs() < 0.001, "{name}: {found}");
    }
}

#[test]
fn event_emitted_during_warm_up_does_not_count() {
    let (folder, host) = folder("in", b"x\n");
    let config = r#"{ "file": "in", "iterations": 1, "warmup_s": 1, "report": "r.json" }"#;
    let mut bench = bench(&host, config).unwrap();
    bench.pull().unwrap();
    let counts_from = host.now_ns() + 1_000_000_000;
    host.advance(Duration::from_secs(3));
    let before = counts_from - 1;
    bench.deliver(&encoded(&[before, counts_from, counts_from, before])).unwrap();
    bench.stop().unwrap();
    let report = report(folder.path());
    assert_eq!((&report["events"], &report["bytes"]), (&2.into(), &8.into()));
    assert_eq!((&report["elapsed_s"], &report["events_per_second"]), (&2.0.into(), &1.0.into()));
    assert_eq!(report["bytes_per_second"], 4.0);
}

#[test]
fn without_warm_up_events_of_any_source_count() {
    let (folder, host) = folder("in", b"x\n");
    let config = r#"{ "file": "in", "iterations": 1, "report": "r.json" }"#;
    let mut bench = bench(&host, config).unwrap();
    let from_another_source = host.now_ns();
    host.advance(Duration::from_secs(1));
    bench.pull().unwrap();
    host.advance(Duration::from_secs(1));
    bench.deliver(&encoded(&[from_another_source, host.now_ns()])).unwrap();
    bench.stop().unwrap();
    let report = report(folder.path());
    assert_eq!((&report["events"], &report["elapsed_s"]), (&2.into(), &2.0.into()));
}

#[test]
fn latencies_are_exact_to_three_digits() {
    let (folder, host) = folder("in", b"x\n");
    let config = r#"{ "file": "in", "iterations": 1, "report": "r.json", "hgrm": "l.hgrm" }"#;
    let mut sink = bench(&host, config).unwrap();
    let start = host.now_ns();
    sink.deliver(&encoded(&[])).unwrap();
    for (microseconds, count) in [(10, 50), (15, 40), (100, 9), (3_600_000_000, 1)] {
        let ingest_ns = host.now_ns();
        host.advance(Duration::from_micros(microseconds));
        sink.deliver(&encoded(&vec![ingest_ns; count])).unwrap();
    }
    sink.stop().unwrap();
    let report = report(folder.path());
    for (name, expected_ns) in
        [("p50", 10_000.0), ("p90", 15_000.0), ("p99", 100_000.0), ("p999", 6e10), ("max", 6e10)]
    {
        let found = report["latency_ns"][name].as_f64().unwrap();
        assert!((found / expected_ns - 1.0).abs() < 0.001, "{name}: {found}");
    }
    assert!(report["latency_ns"]["mean"].as_f64().unwrap() > 5e8);
    assert!(report["latency_ns"]["stdev"].as_f64().unwrap() > 5e9);
    assert!(host.now_ns() > start);

    let text = fs::read_to_string(folder.path().join("l.hgrm")).unwrap();
    let header: Vec<_> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]);
    let rows = text.lines().skip(2).take_while(|line| !line.starts_with('#'));
    let rows: Vec<Vec<_>> = rows.map(|row| row.split_whitespace().collect()).collect();
    let (last, rows) = rows.split_last().unwrap();
    assert_eq!(last[1..], ["1.000000000000", "100"]);
    // The plotter accepts rows of four numbers, and draws the first and the last number.
    let four = |row: &Vec<&str>| row.len() == 4 && row.iter().all(|it| it.parse::<f64>().is_ok());
    assert!(!rows.is_empty() && rows.iter().all(four), "{text}");
    assert!(text.contains("Total count    =          100]"), "{text}");
    let (_, log) = host.log().pop().unwrap();
    assert!(log.starts_with("100 events in 3600.000 s"), "{log}");
}

#[test]
fn report_without_events_is_valid() {
    let (folder, host) = folder("in", b"x\n");
    bench(&host, r#"{ "file": "in", "iterations": 0, "report": "r.json" }"#)
        .unwrap()
        .stop()
        .unwrap();
    let report = report(folder.path());
    assert_eq!((&report["events"], &report["events_per_second"]), (&0.into(), &0.0.into()));
}

#[test]
fn invalid_configuration_is_rejected_with_its_reason() {
    let (folder, host) = folder("in", b"AP8=\nno base64\n");
    for (config, expected) in [
        (
            r#"{ "file": "missing", "iterations": 1 }"#,
            "missing: cannot read the file: No such file",
        ),
        (r#"{ "file": "in", "iterations": 1, "base64": true }"#, "line 2: expected a base64 event"),
        (r#"{ "file": "in" }"#, "set `iterations`, `duration_s`, or both"),
        (r#"{ "file": "in", "duration_s": -1 }"#, "invalid `duration_s` -1"),
        (
            r#"{ "file": "in", "iterations": 1, "rate": 0 }"#,
            "invalid `rate` 0: expected events per second",
        ),
    ] {
        let error = bench(&host, config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    fs::write(folder.path().join("in"), "\n \n").unwrap();
    let error = bench(&host, r#"{ "file": "in", "iterations": 1 }"#).err().unwrap();
    assert!(error.to_string().contains("has no events"), "{error}");
}
