//! A file for each of a thousand hosts, all of which another program renames while they are written.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    thread::{self, JoinHandle},
};

use crate::{http::post, running::Running, tremor::Scene};

const HOSTS: usize = 1_000;
/// Number of times that all files are renamed while requests are in flight.
const RENAMES: usize = 6;
/// Number of requests that are in flight together. Each has an event of each host.
const CLIENTS: usize = 3;

const FLOW: &str = "connectors:
  input:
    type: http_server
    preprocessors: [lines]
    codec: json
    config: { listen: '127.0.0.1:0', respond: delivered }
  output:
    type: file
    codec: json
    postprocessors: [lines]
    config: { path: 'logs/{host}.log', mode: append }
links: [input -> output]";

/// Returns a line for each host. `number` is the number of the request.
fn lines(number: usize) -> Vec<String> {
    (0..HOSTS).map(|host| format!(r#"{{"host":"host-{host}","request":{number}}}"#)).collect()
}

/// Sends requests, each on a thread of its own, which returns the lines if they were acknowledged.
fn begin(address: &str, numbers: std::ops::Range<usize>) -> Vec<JoinHandle<Vec<String>>> {
    let send = |number| {
        let (address, lines) = (address.to_owned(), lines(number));
        thread::spawn(move || {
            let status = post(&address, &lines.join("\n")).map(|(status, _)| status);
            if status == Some(200) { lines } else { Vec::new() }
        })
    };
    numbers.map(send).collect()
}

/// Renames each file as logrotate does, over the file that was renamed before, which is kept by a link only.
fn rename_all(scene: &Path, number: usize) {
    for host in 0..HOSTS {
        let path = scene.join(format!("logs/host-{host}.log"));
        if fs::hard_link(&path, scene.join(format!("kept/{host}.{number}"))).is_ok() {
            fs::rename(&path, scene.join(format!("logs/host-{host}.log.1"))).unwrap();
        }
    }
}

/// Returns the lines of all files, of which each counts once although it may have several names.
fn kept(scene: &Path) -> Vec<String> {
    let (mut files, mut lines) = (HashSet::new(), Vec::new());
    for folder in ["logs", "kept"] {
        for entry in fs::read_dir(scene.join(folder)).unwrap().map(Result::unwrap) {
            if files.insert(entry.metadata().unwrap().ino()) {
                let text = fs::read_to_string(entry.path()).unwrap();
                assert!(text.is_empty() || text.ends_with('\n'), "{entry:?}");
                lines.extend(text.lines().map(str::to_owned));
            }
        }
    }
    lines
}

/// The process is killed, so events are in the files without the end of the run.
#[test]
fn acknowledged_events_of_renamed_files_are_kept() {
    let scene = Scene::new(FLOW);
    for folder in ["logs", "kept"] {
        fs::create_dir(scene.path().join(folder)).unwrap();
    }
    let mut running = Running::of(scene, &["flow.yaml"], |command| command);
    let (address, _) = running.listens();
    let folder = running.scene.path().to_owned();
    let (mut acknowledged, mut number) = (Vec::new(), 0);
    for rename in 0..RENAMES {
        let requests = begin(&address, number..number + CLIENTS);
        number += CLIENTS;
        // The files of the previous requests are renamed while these are written. Every second time, the files are
        // renamed again before the next requests begin.
        rename_all(&folder, 2 * rename);
        for request in requests {
            acknowledged.extend(request.join().unwrap());
        }
        if rename % 2 == 0 {
            rename_all(&folder, 2 * rename + 1);
        }
    }
    running.signal(&["KILL"]);
    assert_eq!(acknowledged.len(), HOSTS * CLIENTS * RENAMES, "each request is acknowledged");
    let mut kept = kept(&folder);
    kept.sort_unstable();
    acknowledged.sort_unstable();
    assert!(kept == acknowledged, "{} lines in files", kept.len());
}
