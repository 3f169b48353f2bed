//! `MinIO`: the sink `s3`, with objects in parts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use walkdir::WalkDir;

use super::turn::{Disturbance, FLOW, Input, PATIENCE, Served};
use super::{Finding, built, finding};
use crate::outage::received::{Form, Received};
use crate::process::{Signal, need, wait};
use crate::project::{output, text};
use crate::scenario::Stage;
use crate::tools::GoProgram;

pub(super) const PROGRAM: GoProgram = GoProgram {
    name: "minio",
    package: "github.com/minio/minio",
    version: "0.0.0-20260212201848-7aac2a2c5b7c",
};

const BUCKET: &str = "lines";
/// Access key and secret of a server without configuration.
const USER: &str = "minioadmin:minioadmin";
/// Length of a line with its line feed, in bytes.
const LINE: usize = 1_024;
/// Number of lines in each turn, which become an object of 20 MiB. Its parts have 8 MiB.
const LINES: u64 = 20 << 10;
/// Number of parts after which a turn is disturbed. With the last one, the object is complete.
const PARTS: [usize; 3] = [1, 2, 3];

pub(super) fn program(fetch: bool) -> Result<PathBuf> {
    need("curl", "`apt-get install curl`")?;
    built(&PROGRAM, fetch)
}

#[allow(clippy::needless_pass_by_value)] // because all servers have the same signature
pub(super) fn play(stage: &Stage<'_>, program: PathBuf) -> Result<Vec<Finding>> {
    let mut server = Served::start(stage, &program, "API: http", |address, data| {
        let data = data.display();
        ["server", "--address", address, "--console-address", "127.0.0.1:0"]
            .map(str::to_owned)
            .into_iter()
            .chain([data.to_string()])
            .collect()
    })?;
    output(curl(&server, "").args(["--request", "PUT"]))?;
    let values: [(_, &dyn std::fmt::Display); 2] =
        [("SERVER", &server.address), ("BUCKET", &BUCKET)];
    stage.flow(FLOW, include_str!("../flows/minio.yaml"), &values)?;
    let data = Data(stage.folder.join("data"));
    let mut input = Input::new(stage);
    let mut all_turns = |disturbance, server: &mut Served| {
        for parts in PARTS {
            let before = data.objects();
            input.add(LINES, line)?;
            let is_time = |_: &_| Ok(data.parts() >= parts || data.objects() > before);
            server.turn(stage, disturbance, is_time)?;
        }
        // The server may remove the files of a completed upload after its answer. If some stay, a finding tells so.
        let _ = wait("no upload", PATIENCE / 4, || Ok((data.uploads() == 0).then_some(())));
        let (stored, objects) = stored(server)?;
        Ok::<_, anyhow::Error>(Turns { stored, objects, sent: input.count, open: data.uploads() })
    };
    let after_servers = all_turns(Disturbance::EndServer(Signal::KILL), &mut server)?;
    let after_flows = all_turns(Disturbance::KillFlow, &mut server)?;
    let mut findings = findings(&after_servers, &after_flows);
    findings.push(server.disturbed());
    Ok(findings)
}

/// The state of the server after some turns.
struct Turns {
    stored: Received,
    objects: usize,
    /// Number of lines of the input.
    sent: u64,
    /// Number of uploads that are neither complete nor aborted.
    open: usize,
}

fn findings(after_servers: &Turns, after_flows: &Turns) -> Vec<Finding> {
    let again = after_servers.stored.again;
    let Turns { stored, objects, sent, .. } = after_flows;
    let lost = stored.missing(*sent) + after_servers.stored.missing(after_servers.sent);
    let open = after_servers.open + after_flows.open;
    vec![
        finding("lost", format!("{lost} of {sent} lines, 0 allowed"), lost == 0 && *sent > 0),
        finding("torn", format!("{} lines, 0 allowed", stored.torn), stored.torn == 0),
        finding(
            "again",
            format!(
                "{again} lines are stored twice after kills of the server, 0 allowed; {} after kills of the flow",
                stored.again - again
            ),
            again == 0,
        ),
        finding("uploads", format!("{open} are open, 0 allowed"), open == 0),
        finding("objects", format!("{objects}"), true),
    ]
}

/// Returns a line with its number between two characters `#`.
fn line(number: u64) -> String {
    let mut line = format!("#{number}#");
    line.extend(std::iter::repeat_n('.', LINE - 1 - line.len()));
    line
}

/// Reads all objects. Returns their lines, and the number of objects.
fn stored(server: &Served) -> Result<(Received, usize)> {
    let list = text(&mut curl(server, "?list-type=2"))?;
    let mut received = Received::new(Form::Lines, 1);
    let keys: Vec<_> = keys(&list).collect();
    for key in &keys {
        received.add(&output(&mut curl(server, &format!("/{key}")))?.stdout);
    }
    Ok((received, keys.len()))
}

/// Returns the keys in a list of objects.
fn keys(list: &str) -> impl Iterator<Item = &str> {
    list.split("<Key>").skip(1).filter_map(|after| Some(after.split_once("</Key>")?.0))
}

/// Returns a signed request for the bucket, or for an object in it.
fn curl(server: &Served, path: &str) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "60"]);
    curl.args(["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", USER]);
    curl.arg(format!("http://{}/{BUCKET}{path}", server.address));
    curl
}

/// The folder of the server. A list of its files disturbs the server less than requests do.
struct Data(PathBuf);

impl Data {
    /// Returns the number of stored parts of uploads that are not complete.
    fn parts(&self) -> usize {
        let is_part = |name: &str| {
            name.strip_prefix("part.").is_some_and(|number| number.parse::<u16>().is_ok())
        };
        self.count(".minio.sys/multipart", is_part)
    }

    /// Returns the number of uploads that are neither complete nor aborted.
    fn uploads(&self) -> usize {
        self.count(".minio.sys/multipart", |name| name == "xl.meta")
    }

    fn objects(&self) -> usize {
        self.count(BUCKET, |name| name == "xl.meta")
    }

    fn count(&self, folder: impl AsRef<Path>, counts: impl Fn(&str) -> bool) -> usize {
        // Files may disappear meanwhile.
        let files = WalkDir::new(self.0.join(folder)).into_iter().flatten();
        files.filter(|file| file.file_name().to_str().is_some_and(&counts)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(numbers: &[u64]) -> Turns {
        let mut stored = Received::new(Form::Lines, 1);
        let lines: Vec<_> = numbers.iter().map(|number| line(*number) + "\n").collect();
        stored.add(lines.concat().as_bytes());
        Turns { stored, objects: 1, sent: 3, open: 0 }
    }

    #[test]
    fn each_guarantee_is_broken_by_its_own_fault() {
        type Change = fn(&mut Turns, &mut Turns);
        for (name, change) in [
            ("", (|_, _| {}) as Change),
            ("", |_, after| *after = turns(&[0, 1, 2, 2])),
            ("lost", |_, after| *after = turns(&[0, 2])),
            ("torn", |_, after| after.stored.add(b"#7")),
            ("again", |before, after| [*before, *after] = [(); 2].map(|()| turns(&[0, 1, 2, 2]))),
            ("uploads", |_, after| after.open = 1),
        ] {
            let [mut before, mut after] = [(); 2].map(|()| turns(&[0, 1, 2]));
            change(&mut before, &mut after);
            let findings = findings(&before, &after);
            let broken: Vec<_> =
                findings.iter().filter(|it| !it.holds).map(|it| &*it.what).collect();
            let expected: Vec<_> = Some(name).filter(|it| !it.is_empty()).into_iter().collect();
            assert_eq!(broken, expected);
        }
    }

    #[test]
    fn keys_are_read_from_the_list() {
        let list =
            "<R><Contents><Key>a-1.txt</Key></Contents><Contents><Key>b</Key></Contents></R>";
        assert_eq!(keys(list).collect::<Vec<_>>(), ["a-1.txt", "b"]);
        assert_eq!(line(7).len(), LINE - 1);
    }
}
