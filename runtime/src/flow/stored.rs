//! Checks of queues on disk: of their folders, as far as they exist, and of sinks that cannot deliver events of an
//! earlier run.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use tremor_log::{FileKind, InspectError, Inspection};

use super::{
    Disk, Flow, diagnostic::Report, graph::Role, spec::Connector, suggest::quote, warn::of_role,
};

const STICKY: u32 = 0o1000;
const GROUP: u32 = 0o020;
const OTHERS: u32 = 0o002;

/// Names that a folder may have which contains no queue yet: files of a queue whose creation was interrupted, and the
/// folder that `mkfs` creates.
const NOT_FOREIGN: [&str; 4] = ["lock", "log.new", "positions.new", "lost+found"];

/// Ending of the names of files that `tremor queue repair` sets aside.
const ASIDE: &str = ".aside";

/// Reports problems of the queues on disk.
pub(super) fn check(flow: &Flow, report: &mut Report) {
    for (_, sink) in of_role(&flow.spec, &flow.graph, Role::Sink) {
        let Some(disk) = &sink.queue.disk else { continue };
        let folder = flow.folder().join(&disk.path.value);
        answers_its_origin(sink, report);
        may_be_changed(sink, disk, &folder, report);
        has_other_contents(sink, disk, &folder, report);
    }
}

/// Reports a sink that sends events to the client that sent them, because this client is gone after a restart.
fn answers_its_origin(sink: &Connector, report: &mut Report) {
    let config = &sink.component.config;
    if config.value().get("send_to").and_then(|it| it.as_str()) != Some("origin") {
        return;
    }
    let message = format!(
        "sink {} with `send_to: origin` refuses events that its queue on disk has kept from an earlier run, because \
         their client is no longer connected",
        quote(&sink.name.value)
    );
    let help = "remove `queue.disk`, or link the port `err` of the sink";
    report.push(report.warning(config.span("/send_to"), message).help(help));
}

/// Reports a folder that other users could change or replace.
fn may_be_changed(sink: &Connector, disk: &Disk, folder: &Path, report: &mut Report) {
    let existing = folder.ancestors().find_map(|it| it.canonicalize().ok());
    let Some(existing) = existing else { return };
    let is_there = folder.exists();
    for (at, path) in existing.ancestors().enumerate() {
        let Ok(about) = fs::metadata(path) else { continue };
        let is_folder = is_there && at == 0;
        let Some((who, remedy)) = writers(about.mode(), is_folder) else { continue };
        let path = path.display();
        let message = format!(
            "{who} may write to {path}, and so could change or replace the queue on disk of {}",
            quote(&sink.name.value)
        );
        let help = format!("`chmod {remedy} {path}`, or set another path");
        return report.push(report.warning(disk.path.at, message).help(help));
    }
}

/// Returns who else may write to a folder on the path of a queue, and the mode that prevents it.
fn writers(mode: u32, is_folder_of_queue: bool) -> Option<(&'static str, &'static str)> {
    // In a sticky folder, a user cannot replace files of another user, but can create files.
    let is_safe = mode & STICKY != 0 && !is_folder_of_queue;
    match () {
        () if mode & OTHERS != 0 && !is_safe => Some(("everybody", "o-w")),
        () if mode & GROUP != 0 && is_folder_of_queue => Some(("a group", "g-w")),
        () => None,
    }
}

/// Reports a folder that contains something else than a queue of this version.
fn has_other_contents(sink: &Connector, disk: &Disk, folder: &Path, report: &mut Report) {
    let (at, name, path) = (disk.path.at, quote(&sink.name.value), folder.display());
    match Inspection::open(folder) {
        Ok(inspection) => {
            let others = inspection.files.iter().filter(|it| it.kind == FileKind::Other);
            let mut others = others.filter_map(|it| it.path.file_name()?.to_str());
            let is_known = |it: &str| {
                [Disk::REJECTED, Disk::ID, "lost+found"].contains(&it) || it.ends_with(ASIDE)
            };
            if let Some(other) = others.find(|it| !is_known(it)) {
                let message = format!(
                    "the folder {path} of the queue on disk of {name} contains {}, which does not belong to the queue",
                    quote(other)
                );
                let help = "move it to another folder";
                report.push(report.warning(at, message).help(help));
            }
        }
        Err(InspectError::NotALog(_)) => {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let mut names = entries.filter_map(|it| it.file_name().into_string().ok());
            if let Some(other) = names.find(|it| !NOT_FOREIGN.contains(&&**it)) {
                let message = format!(
                    "the folder {path} of the queue on disk of {name} contains {} and no queue",
                    quote(&other)
                );
                let help = "set an empty folder, or one that does not exist";
                report.push(report.warning(at, message).help(help));
            }
        }
        Err(error @ InspectError::Newer { .. }) => {
            let message = format!("cannot use the queue on disk of {name}: {error}");
            report
                .push(report.error(at, message).help("use the newer program, or set another path"));
        }
        // The folder is created. Other errors are reported when the queue is opened, maybe on another machine.
        Err(InspectError::NotFound(_) | InspectError::Changing(_) | InspectError::Device(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use tremor_log::{Log, Options};
    use twox_hash::XxHash3_64;

    use super::super::{Environment, Limits, parse};

    /// Returns the errors and warnings about a sink whose queue is in `folder`.
    fn problems(folder: &Path, config: &str) -> String {
        let text = format!(
            "connectors:
  a: {{ type: x }}
  b: {{ type: x, config: {{ {config} }}, queue: {{ disk: {{ path: '{}', max_bytes: 1MiB }} }} }}
links: [a -> b]
",
            folder.display()
        );
        let draft = parse("f", text, &Limits::default(), &Environment::default()).unwrap();
        match draft.finish() {
            Ok(flow) => flow.warnings.iter().map(ToString::to_string).collect(),
            Err(error) => error.to_string(),
        }
    }

    fn assert_has(problems: &str, parts: &[&str]) {
        parts.iter().for_each(|part| assert!(problems.contains(part), "{part}: {problems}"));
        assert!(!parts.is_empty() || problems.is_empty(), "{problems}");
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn sink_that_answers_its_origin_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("queue");
        assert_has(&problems(&queue, "send_to: all"), &[]);
        let expected =
            ["warning: sink `b` with `send_to: origin` refuses events", "link the port `err`"];
        assert_has(&problems(&queue, "send_to: origin"), &expected);
    }

    #[test]
    fn folder_that_others_may_write_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().join("parent");
        let queue = parent.join("queue");
        fs::create_dir_all(&queue).unwrap();
        // Modes of the folder above the queue and of that of the queue, and who may write.
        for (above, of_queue, expected) in [
            (0o755, 0o700, None),
            (0o775, 0o755, None),
            (0o1777, 0o700, None),
            (0o777, 0o700, Some("everybody may write to")),
            (0o755, 0o770, Some("a group may write to")),
            (0o755, 0o1777, Some("everybody may write to")),
        ] {
            set_mode(&parent, above);
            set_mode(&queue, of_queue);
            let expected: Vec<_> = expected.into_iter().collect();
            assert_has(&problems(&queue, ""), &expected);
        }
        set_mode(&parent, 0o777);
        assert_has(&problems(&parent.join("missing/queue"), ""), &["everybody may write to"]);
    }

    #[test]
    fn folder_with_other_contents_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("queue");
        fs::create_dir(&queue).unwrap();
        fs::write(queue.join("lock"), "").unwrap();
        assert_has(&problems(&queue, ""), &[]);
        fs::write(queue.join("notes"), "").unwrap();
        assert_has(&problems(&queue, ""), &["contains `notes` and no queue", "an empty folder"]);
        Log::open(&queue, Options::new(1 << 20)).unwrap();
        let expected = "contains `notes`, which does not belong to the queue";
        assert_has(&problems(&queue, ""), &[expected]);
        fs::rename(queue.join("notes"), queue.join("rejected")).unwrap();
        assert_has(&problems(&queue, ""), &[]);
        let path = queue.join("log");
        let mut bytes = fs::read(&path).unwrap();
        for sheet in bytes.chunks_mut(4096) {
            sheet[4] = 2;
            let len = usize::from(sheet[8]);
            let checked = [&sheet[..56], &sheet[64..len]].concat();
            sheet[56..64].copy_from_slice(&XxHash3_64::oneshot(&checked).to_le_bytes());
        }
        fs::write(&path, bytes).unwrap();
        let expected =
            ["error: cannot use the queue on disk of `b`", "has version 2 of the format"];
        assert_has(&problems(&queue, ""), &expected);
    }
}
