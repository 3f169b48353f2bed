//! Test that no descriptors, threads or zombies leak. Runs in a process without other tests,
//! because the counts are those of the whole process.

#![allow(clippy::unwrap_used)] // a panic names the line of the failure

use std::{fs, time::Duration};

use connector_exec::Exec;
use tremor_pdk::{Error, Pull, Result, testing::TestHost};

fn count(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Returns the number of descriptors and of threads, and the children including zombies.
fn open() -> (usize, usize, String) {
    let children = fs::read_to_string("/proc/thread-self/children").unwrap();
    (count("/proc/self/fd"), count("/proc/self/task"), children)
}

#[test]
fn hundred_processes_leak_nothing() -> Result<()> {
    let life = |script: &str| {
        let config =
            format!(r#"{{ "command": "sh", "args": ["-c", "{script}"], "restart": "always" }}"#);
        let host = TestHost::new();
        let mut connection = host.connect::<Exec>(&config)?;
        while let Ok((Pull::Events, _)) = connection.pull() {}
        connection.stop()?;
        // Tasks that have ended are dropped when other tasks run.
        host.block_on(host.host().sleep(Duration::from_secs(1)));
        Ok::<_, Error>(())
    };
    life("echo x")?;
    let before = open();
    for round in 0..100 {
        life(
            [
                "echo x; exit 0",
                "exit 3",
                "sleep 1000 & kill -9 $$",
                "exec >&-; trap '' TERM; echo x >&2",
            ][round % 4],
        )?;
    }
    assert_eq!(open(), before);
    Ok(())
}
