//! Tests that run the flows of the cookbook (`docs/guide/cookbook`) as they are, with other paths and addresses.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{running::Running, support::workspace, tremor::Scene};

mod collector;
mod dead_letters;
mod journal;
mod journal_loki;
mod kubernetes;
mod nginx;
mod nginx_elasticsearch;
mod personal_data;
mod prometheus;
mod relay;
mod remote_write;
mod routes;
mod s3;
mod teams;

/// Returns the flows of a page of the cookbook, in the order of the page.
fn flows(page: &str) -> Vec<String> {
    let path = workspace().join("docs/guide/cookbook").join(page);
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.filter(|block| block.starts_with("connectors:")).map(str::to_owned).collect()
}

/// A folder in which a flow of the cookbook runs, with folders in place of `/var/log` and `/var/lib/tremor`.
struct Kitchen {
    folder: tempfile::TempDir,
}

impl Kitchen {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["log", "state"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    /// Returns the path of a file in the folder in place of `/var/log`.
    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join("log").join(name)
    }

    /// Returns the path of a file in the folder in place of `/var/lib/tremor/NAME`.
    fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join("state").join(name)
    }

    /// Returns a flow with the paths of this folder and with these further replacements, each of which has to occur.
    fn flow(&self, flow: &str, replaced: &[(&str, &str)]) -> Scene {
        let folder = self.folder.path().display();
        let mut flow = flow.replace("/var/log/", &format!("{folder}/log/"));
        while let Some((before, after)) = flow.split_once("/var/lib/tremor/") {
            let (_, name) = after.split_once('/').unwrap();
            flow = format!("{before}{folder}/state/{name}");
        }
        for (from, to) in replaced {
            assert!(flow.contains(from), "`{from}` is not in:\n{flow}");
            flow = flow.replace(from, to);
        }
        Scene::new(&flow)
    }

    /// Starts a flow, after `tremor check` has accepted it without a warning.
    fn start(&self, flow: &str, replaced: &[(&str, &str)], variables: &[(&str, &str)]) -> Running {
        let scene = self.flow(flow, replaced);
        let mut check = scene.command(&["check", "--deny-warnings", "flow.yaml"]);
        let check = check.envs(variables.iter().copied()).output().unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
        Running::of(scene, &["flow.yaml"], |command| command.envs(variables.iter().copied()))
    }
}

/// Returns the values of the complete lines of a file of JSON, to which a flow may be writing; none if there is no
/// file.
fn values(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let (lines, _) = text.rsplit_once('\n').unwrap_or_default();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns how often each text at `pointer` occurs in events.
fn counts(events: &[Value], pointer: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        let text = event.pointer(pointer).and_then(Value::as_str);
        let text = text.unwrap_or_else(|| panic!("no text `{pointer}` in {event}"));
        *counts.entry(text.to_owned()).or_default() += 1;
    }
    counts
}
