//! Tests that a `file` source follows files while the real logrotate rotates them, configured with the stanzas of the
//! page "Tailing logs".

use std::{
    collections::HashMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    peer::{logrotate, wait_until},
    running::Running,
    support::workspace,
    tremor::Scene,
};

/// Number of rotations in each test. With `delaycompress`, each rotation compresses the file of the previous one.
const ROTATIONS: u64 = 3;

/// Returns the stanzas of the page: those of nginx and of rsyslog.
fn stanzas() -> Vec<String> {
    let page = fs::read_to_string(workspace().join("docs/guide/tailing.md")).unwrap();
    let blocks = page.split("```text\n").skip(1).filter_map(|text| text.split("```").next());
    let stanzas: Vec<_> =
        blocks.filter(|text| text.contains("rotate ")).map(str::to_owned).collect();
    assert_eq!(stanzas.len(), 2, "one stanza of nginx, and one of rsyslog");
    stanzas
}

/// Adapts a stanza to a test in `folder`: replaces the path and the `postrotate` script, and removes the owner of new
/// files. With `copies`, uses `copytruncate` without a script. Without `delays`, removes `delaycompress`.
fn adapted(stanza: &str, folder: &Path, copies: bool, delays: bool) -> String {
    let (_, body) = stanza.split_once('{').unwrap();
    let reopen = folder.join("reopen");
    let script = format!(
        "postrotate\ntouch {0}; while [ -e {0} ]; do sleep 0.01; done\nendscript\n",
        reopen.display()
    );
    let (mut lines, mut is_script) = (String::new(), false);
    for line in body.lines().map(str::trim) {
        is_script |= line == "postrotate" || line == "prerotate";
        let is_left_out = is_script
            || (line == "delaycompress" && !delays)
            || line.starts_with("create")
            || line == "}";
        if !is_left_out {
            lines.extend([line, "\n"]);
        }
        is_script &= line != "endscript";
    }
    lines += if copies { "copytruncate\n" } else { "create 0640\n" };
    if !copies {
        lines += &script;
    }
    format!("{} {{\n{lines}}}\n", folder.join("logs/access.log").display())
}

/// A thread that appends numbered lines to a file, and opens the file again when it is asked to.
struct Writer {
    thread: JoinHandle<()>,
    ends: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
}

impl Writer {
    fn start(folder: &Path) -> Self {
        let (ends, written) = <(Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let (log, reopen) = (folder.join("logs/access.log"), folder.join("reopen"));
        let (is_over, count) = (ends.clone(), written.clone());
        let open = move || File::options().append(true).create(true).open(&log).unwrap();
        let mut file = open();
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                if reopen.exists() {
                    file = open();
                    fs::remove_file(&reopen).unwrap();
                }
                let number = count.load(Ordering::Relaxed);
                writeln!(file, "192.0.2.7 - - \"GET /{number} HTTP/1.1\" 200 612").unwrap();
                count.store(number + 1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(200));
            }
        });
        Self { thread, ends, written }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn end(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.written.load(Ordering::Relaxed)
    }
}

fn flow(folder: &Path, follow: bool) -> String {
    let folder = folder.display();
    format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config:
      path: {folder}/logs/*.log*
      mode: read
      checkpoint: {folder}/at
      follow: {follow}
      poll_interval: 10ms
  output:
    type: file
    codec: string
    postprocessors: [lines]
    config: {{ path: {folder}/out, mode: append }}
links: [input -> output]"
    )
}

/// Returns the lines of all log files, compressed ones included. With `copytruncate`, logrotate loses the lines that
/// are written between the copy and the truncation.
fn kept(folder: &Path) -> Vec<String> {
    let files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let text = files.iter().map(|path| {
        let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
        let program = if is_compressed { "zcat" } else { "cat" };
        let output = Command::new(program).arg(path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
    text.collect::<String>().lines().map(str::to_owned).collect()
}

/// Rotates the log several times while it is written and followed, and checks that no line is delivered twice, and that
/// each line in the log files is delivered. Unless `copies` is set, also checks that each written line is delivered.
fn rotate(stanza: &str, copies: bool, delays: bool) {
    let Some(mut command) = logrotate() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("logs")).unwrap();
    fs::write(folder.join("rotate.conf"), adapted(stanza, folder, copies, delays)).unwrap();
    let case = format!("copytruncate: {copies}, delaycompress: {delays}");
    let writer = Writer::start(folder);
    let scene = Scene::new(&flow(folder, true));
    let mut running = Running::of(scene, &["flow.yaml"], |command| command);
    running.until("component=output state=running");
    let out = folder.join("out");
    let count = || fs::read_to_string(&out).map_or(0, |text| text.lines().count() as u64);
    command.args(["-f", "-s", "state", "rotate.conf"]).current_dir(folder);
    for _ in 0..ROTATIONS {
        let enough = writer.written() + 50;
        wait_until(|| writer.written() >= enough && count() + 1_000 >= enough);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{case}: {output:?}");
    }
    let enough = writer.written() + 50;
    wait_until(|| writer.written() >= enough);
    let written = writer.end();
    let last = format!("GET /{} ", written - 1);
    wait_until(|| fs::read_to_string(&out).is_ok_and(|text| text.contains(&last)));
    running.signal(&["TERM"]);
    let run = running.end();
    run.expect(0, &[]);

    // A second run, which reads each file to its end and does not follow it, delivers the lines that the first run has
    // not read yet.
    let once = Scene::new(&flow(folder, false)).run();
    once.expect(0, &[]);
    let text = fs::read_to_string(&out).unwrap();
    let mut delivered: HashMap<&str, u64> = HashMap::new();
    text.lines().for_each(|line| *delivered.entry(line).or_default() += 1);
    let log = format!("{case}\n{}\n{}", run.stderr, once.stderr);
    let again: Vec<_> = delivered.iter().filter(|(_, count)| **count > 1).collect();
    assert!(again.is_empty(), "{} lines were delivered again: {log}", again.len());
    let kept = kept(&folder.join("logs"));
    let lost = kept.iter().filter(|line| !delivered.contains_key(line.as_str())).count();
    assert_eq!(lost, 0, "lines were lost: {log}");
    if !copies {
        assert_eq!(delivered.len() as u64, written, "{log}");
    }
    let compressed = fs::read_dir(folder.join("logs")).unwrap().flatten();
    let compressed = compressed.filter(|it| it.path().extension().is_some_and(|it| it == "gz"));
    assert_eq!(compressed.count() as u64, ROTATIONS - u64::from(delays), "{case}");
}

#[test]
fn stanzas_with_create_deliver_each_line_once() {
    for stanza in stanzas() {
        rotate(&stanza, false, true);
    }
}

#[test]
fn stanzas_with_create_without_delay_deliver_lines_once() {
    for stanza in stanzas() {
        rotate(&stanza, false, false);
    }
}

#[test]
fn stanzas_with_copytruncate_deliver_each_line_once() {
    for stanza in stanzas() {
        rotate(&stanza, true, true);
    }
}

#[test]
fn stanzas_with_copytruncate_without_delay_deliver_once() {
    for stanza in stanzas() {
        rotate(&stanza, true, false);
    }
}
