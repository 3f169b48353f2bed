//! Tests of the connector `journald`, with a script in place of `journalctl`.

use std::{fs, ops::RangeInclusive, os::unix::fs::PermissionsExt, path::Path, process::Command};

use crate::{running::Running, tremor::Scene};

/// Writes the lines of the file `journal`, starting with the line whose number is the cursor, and waits for more lines.
const JOURNALCTL: &str = r#"from=1
for argument; do
  case $argument in --cursor=*) from=${argument#--cursor=} ;; esac
done
cd "$(dirname "$0")" || exit
exec tail -n "+$from" -f journal
"#;

const FLOW: &str = "connectors:
  journal:
    type: journald
    config: { command: ./journalctl, checkpoint: at, checkpoint_interval: 1ms }
  terminal: { type: stdio, codec: json, postprocessors: [lines] }
links: [journal -> terminal]";

/// Returns the lines of a journal whose entries have these numbers.
pub(crate) fn entries(numbers: RangeInclusive<usize>) -> String {
    let line = |number| format!("{{\"__CURSOR\":\"{number}\",\"MESSAGE\":\"m{number}\"}}\n");
    let lines: Vec<String> = numbers.map(line).collect();
    lines.concat()
}

/// Writes the script `journalctl` to a folder. The script reads the file `journal` in the same folder.
pub(crate) fn write_journalctl(folder: &Path) {
    // Let another process write the script, because a script that this process has open for writing cannot be executed.
    let mut writer = Command::new("sh");
    writer.args(["-c", "printf '#!/bin/sh\n%s' \"$0\" > journalctl", JOURNALCTL]);
    assert!(writer.current_dir(folder).status().unwrap().success());
    let script = folder.join("journalctl");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn journal_continues_after_the_process_was_killed() {
    let scene = Scene::new(FLOW).write("journal", entries(1..=3).as_bytes());
    write_journalctl(scene.path());
    scene.tremor(&["check", "flow.yaml"]).expect(0, &["flow `flow` is valid"]);
    let path = scene.path().to_owned();

    let running = Running::of(scene, &["flow.yaml"], |it| it);
    for number in 1..=3 {
        assert!(running.event().contains(&format!("\"m{number}\"")));
    }
    while !fs::read_to_string(path.join("at")).unwrap().contains("\"cursor\": \"3\"") {
        std::thread::yield_now();
    }
    let second = Scene::new(FLOW);
    for name in ["journalctl", "at"] {
        assert!(
            Command::new("cp").arg(path.join(name)).arg(second.path()).status().unwrap().success()
        );
    }
    running.signal(&["KILL"]);
    drop(running);

    let second = second.write("journal", entries(1..=5).as_bytes());
    let running = Running::of(second, &["flow.yaml"], |it| it);
    for number in 4..=5 {
        assert!(running.event().contains(&format!("\"m{number}\"")));
    }
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);
}
