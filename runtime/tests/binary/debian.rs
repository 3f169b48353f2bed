//! Test of the Debian package and the unit for systemd, with the program and the plugins that are built for tests.

use std::{fs, path::Path, process::Command};

use crate::support::{library, workspace};

/// Exit status of the script if the machine lacks what the test needs.
const SKIPPED: i32 = 77;

#[test]
fn package_is_installed_upgraded_and_purged() {
    let folder = tempfile::tempdir().unwrap();
    let dist = workspace().join("dist");
    let add = |from: &Path, to: &str| {
        let to = folder.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    };
    add(Path::new(env!("CARGO_BIN_EXE_tremor")), "bin/tremor");
    for plugin in ["connector-metronome", "connector-stdio"] {
        add(&library(plugin), &format!("lib/tremor/plugins/{plugin}.so"));
    }
    add(&dist.join("tremor@.service"), "lib/systemd/system/tremor@.service");
    add(&dist.join("tremor.sysusers"), "lib/sysusers.d/tremor.conf");
    add(&dist.join("example.yaml"), "share/tremor/examples/example.yaml");
    let script = workspace().join("scripts/tests/deb.sh");
    let output = Command::new(script).arg(folder.path()).arg("2.17").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(SKIPPED) => eprintln!("{printed}"),
        status => assert_eq!(status, Some(0), "{printed}"),
    }
    printed.lines().filter(|line| line.starts_with("SKIPPED")).for_each(|line| eprintln!("{line}"));
}
