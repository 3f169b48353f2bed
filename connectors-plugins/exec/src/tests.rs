use std::{fs, path::Path};

use tremor_pdk::{
    Batch, Connector as _, ErrorKind, EventRef, Halves, Pull, RawBatch, Result, Sides, Source as _,
    testing::{Connection, TestHost, conformance},
};

use super::Exec;

/// Returns the configuration of a shell with this script and additional keys.
fn shell(script: &str, keys: &str) -> String {
    let script = serde_json_text(script);
    format!(r#"{{ "command": "sh", "args": ["-c", {script}] {keys} }}"#)
}

/// Returns `text` as a JSON string.
fn serde_json_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Output of a source, and its end.
#[derive(Debug)]
struct Pulled {
    bytes: Vec<u8>,
    is_aborted: bool,
    end: Result<Pull>,
}

/// Pulls until the source ends.
fn pull_to_end(connection: &mut Connection) -> Pulled {
    let (mut bytes, mut is_aborted) = (Vec::new(), false);
    loop {
        match connection.pull() {
            Ok((Pull::Events, batch)) => {
                for event in &batch {
                    bytes.extend_from_slice(event.raw().unwrap_or_default());
                    is_aborted |= event.is_stream_aborted();
                }
            }
            Ok((end, _)) => return Pulled { bytes, is_aborted, end: Ok(end) },
            Err(error) => return Pulled { bytes, is_aborted, end: Err(error) },
        }
    }
}

fn run(config: &str) -> Pulled {
    let mut connection = TestHost::new().connect::<Exec>(config).unwrap();
    let pulled = pull_to_end(&mut connection);
    connection.stop().unwrap();
    pulled
}

fn message(text: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push_message(text);
    batch
}

/// Returns whether a process runs, or has ended and was not reaped.
fn is_there(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

/// Waits until a process that is not a child of this process no longer exists.
fn wait_until_gone(pid: &str) {
    while fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
    {
        std::thread::yield_now();
    }
}

#[test]
fn output_is_read_to_its_end() {
    let pulled = run(&shell("printf 'one\\ntwo\\n'; printf half", ""));
    assert_eq!(pulled.bytes, b"one\ntwo\nhalf");
    assert!(!pulled.is_aborted, "the process ended regularly, so the last line is complete");
    assert_eq!(pulled.end, Ok(Pull::Finished));
}

#[test]
fn last_line_of_killed_process_is_aborted() {
    let pulled = run(&shell("printf 'one\\nhalf'; kill -9 $$", ""));
    assert_eq!(pulled.bytes, b"one\nhalf");
    assert!(pulled.is_aborted);
    let error = pulled.end.unwrap_err();
    assert_eq!((error.kind(), error.is_final()), (ErrorKind::CONNECTION_LOST, false));
    assert!(error.to_string().contains("`sh` (process "), "{error}");
    assert!(error.to_string().ends_with("was ended by signal 9"), "{error}");
}

#[test]
fn restart_key_decides_whether_ended_process_restarts() {
    let end = |status: u8, restart: &str| {
        let keys = format!(r#", "restart": "{restart}""#);
        run(&shell(&format!("echo x; exit {status}"), &keys)).end
    };
    let is_started_again = |end: Result<Pull>| {
        end.is_err_and(|it| it.kind() == ErrorKind::CONNECTION_LOST && !it.is_final())
    };
    assert_eq!(end(0, "on-failure"), Ok(Pull::Finished));
    assert_eq!(end(0, "never"), Ok(Pull::Finished));
    assert!(is_started_again(end(0, "always")));
    assert!(is_started_again(end(3, "on-failure")));
    assert!(is_started_again(end(3, "always")));
    let error = end(3, "never").unwrap_err();
    assert!(error.is_final());
    assert!(
        error
            .to_string()
            .contains("exit status 3 and is not restarted, because `restart: never` is set"),
        "{error}"
    );
}

#[test]
fn source_and_sink_share_a_process() -> Result<()> {
    let mut connection = TestHost::new().connect::<Exec>(&shell("cat; echo end", ""))?;
    for number in 0..3 {
        let text = format!("message {number}\n");
        connection.deliver(&message(text.as_bytes())).unwrap();
        let (_, batch) = connection.pull()?;
        assert_eq!(batch.first().and_then(EventRef::raw), Some(text.as_bytes()));
        assert_eq!(batch.first().and_then(EventRef::origin), Some("sh"));
    }
    // After the last event the standard input is closed, and the output that follows is still
    // returned.
    connection.close_sink()?;
    let pulled = pull_to_end(&mut connection);
    assert_eq!(pulled.bytes, b"end\n");
    assert_eq!(pulled.end, Ok(Pull::Finished));
    connection.stop()
}

#[test]
fn arguments_and_environment_are_passed_unchanged() {
    let script = r#"printf '%s|' "$0" "$@"; printf '%s' "$GREETING""#;
    let script = serde_json_text(script);
    let pulled = run(&format!(
        r#"{{ "command": "sh", "args": ["-c", {script}, "$HOME", "a b", "*", ""], "env": {{ "GREETING": "; ls" }} }}"#
    ));
    assert_eq!(String::from_utf8(pulled.bytes).unwrap(), "$HOME|a b|*||; ls");
}

#[test]
fn relative_paths_are_resolved_against_folder_of_flow() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir()?;
    let script = folder.path().join("tool");
    fs::create_dir(folder.path().join("inner"))?;
    // Let another process write the file. If this process wrote it, a process that another test
    // starts meanwhile would inherit the descriptor, and executing the file would fail with "text
    // file busy".
    let written = std::process::Command::new("sh")
        .args(["-c", "printf '#!/bin/sh\\nbasename \"$PWD\"\\n' > \"$0\""])
        .arg(&script)
        .status()?;
    assert!(written.success());
    let host = TestHost::new();
    host.set_folder(folder.path());
    let config = r#"{ "command": "./tool", "working_directory": "inner" }"#;
    let error = host.connect::<Exec>(config).err().unwrap();
    assert!(error.to_string().contains("is not executable"), "{error}");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let mut connection = host.connect::<Exec>(config)?;
    assert_eq!(pull_to_end(&mut connection).bytes, b"inner\n");
    connection.stop()
}

#[test]
fn missing_program_is_reported_with_a_remedy() {
    let cases = [
        (r#"{ "command": "no-such-program" }"#, "`no-such-program`: no folder of `PATH`"),
        (r#"{ "command": "./no/such" }"#, "`./no/such`: "),
        (
            r#"{ "command": "cat", "working_directory": "/no/such" }"#,
            "`working_directory` `/no/such`",
        ),
    ];
    for (config, expected) in cases {
        let error = TestHost::new().connect::<Exec>(config).err().unwrap();
        assert!(error.is_final(), "a retry cannot succeed");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn invalid_configuration_is_rejected_before_start() {
    let cases = [
        (r#"{ "command": "" }"#, "invalid `command`"),
        (
            r#"{ "command": "a\u0000b" }"#,
            "invalid `command`: a program name must not contain a NUL byte",
        ),
        (r#"{ "command": "a", "args": ["", "\u0000"] }"#, "invalid `args[1]`"),
        (r#"{ "command": "a", "env": { "A=B": "" } }"#, "invalid `env`: the name `A=B`"),
        (r#"{ "command": "a", "env": { "A": "\u0000" } }"#, "invalid `env.A`"),
    ];
    for (config, expected) in cases {
        let error = TestHost::new().component::<Exec>(config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn large_output_is_read_completely_and_on_demand() {
    let mut connection = TestHost::new()
        .connect::<Exec>(r#"{ "command": "head", "args": ["-c", "100000000", "/dev/zero"] }"#)
        .unwrap();
    let (mut bytes, mut most) = (0, 0);
    let end = loop {
        match connection.pull() {
            Ok((Pull::Events, batch)) => {
                let size: usize = batch.iter().filter_map(EventRef::raw).map(<[u8]>::len).sum();
                (bytes, most) = (bytes + size, most.max(size));
            }
            end => break end,
        }
    };
    assert!(matches!(end, Ok((Pull::Finished, _))));
    assert_eq!(bytes, 100_000_000);
    assert!(most <= 64 << 10, "{most}");
    connection.stop().unwrap();
}

#[test]
fn process_that_reads_nothing_delays_sink_but_not_its_end() -> Result<()> {
    let mut connection =
        TestHost::new().connect::<Exec>(r#"{ "command": "sleep", "args": ["1000"] }"#)?;
    let sink = connection.sink()?;
    let mut batch = message(&vec![b'x'; 1 << 20]);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(sink.poll_deliver(&mut context, 0, &mut batch).is_pending());
    sink.give_up(0);
    connection.stop()
}

#[test]
fn process_that_ends_during_a_write_is_an_error() -> Result<()> {
    // With an exit status of 0 the process is not restarted, so the events can never be delivered,
    // and the error is final.
    for (script, is_final) in [("exec <&-; exit 3", false), ("exit 0", true)] {
        let mut connection = TestHost::new().connect::<Exec>(&shell(script, ""))?;
        let host_bytes = message(&vec![b'x'; 1 << 20]);
        // The output ends before the delivery fails, so no output is lost.
        let output = pull_to_end(&mut connection);
        assert!(output.bytes.is_empty());
        let error = connection.deliver(&host_bytes).unwrap_err().into_error();
        assert_eq!(
            (error.kind(), error.is_final()),
            (ErrorKind::CONNECTION_LOST, is_final),
            "{error}"
        );
        assert_eq!(error.to_string().contains("`restart: always`"), is_final, "{error}");
        connection.stop()?;
    }
    Ok(())
}

#[test]
fn process_that_ignores_sigterm_is_killed() -> Result<()> {
    let script = "trap '' TERM; echo $$; while :; do sleep 1000; done";
    let mut connection = TestHost::new().connect::<Exec>(&shell(script, ""))?;
    let (_, batch) = connection.pull()?;
    let pid = String::from_utf8(batch.first().unwrap().raw().unwrap().to_vec()).unwrap();
    assert!(is_there(&pid));
    connection.stop()?;
    assert!(!is_there(&pid), "the process is killed and reaped");
    Ok(())
}

#[test]
fn child_processes_end_with_their_parent() -> Result<()> {
    // The child process keeps the pipes open for 1000 seconds.
    let script = "trap '' TERM; sleep 1000 & echo $!";
    let host = TestHost::new();
    let mut connection = host.connect::<Exec>(&shell(script, ""))?;
    let pulled = pull_to_end(&mut connection);
    assert_eq!(pulled.end, Ok(Pull::Finished));
    assert!(!pulled.is_aborted);
    let log = host.log();
    assert!(log.iter().any(|(_, line)| line.contains("keeps the output open")), "{log:?}");
    let pid = String::from_utf8(pulled.bytes).unwrap();
    connection.stop()?;
    wait_until_gone(&pid);
    Ok(())
}

#[test]
fn dropped_connector_leaves_no_process() -> Result<()> {
    let host = TestHost::new();
    let mut connection = host.connect::<Exec>(&shell("echo $$; exec cat", ""))?;
    let (_, batch) = connection.pull()?;
    let pid = String::from_utf8(batch.first().unwrap().raw().unwrap().to_vec()).unwrap();
    drop(connection);
    // The process is reaped on a thread for blocking work.
    while is_there(&pid) {
        host.block_on(host.host().blocking(|| ()))?;
    }
    Ok(())
}

#[test]
fn lost_connection_ends_its_process_before_the_next() -> Result<()> {
    for script in ["echo $$; exec cat", "echo $$; exec sleep 1000"] {
        let test = TestHost::new();
        let mut connector = test.component::<Exec>(&shell(script, ""))?;
        let Halves { mut source, sink } = test.block_on(connector.connect(Sides::BOTH))?;
        let mut batch = RawBatch::new();
        test.block_on(source.as_mut().unwrap().pull(&mut batch))?;
        let pid = String::from_utf8(batch.iter().next().unwrap().raw().to_vec()).unwrap();
        drop(source);
        assert!(is_there(&pid), "the sink keeps the process running");
        drop(sink);
        while is_there(&pid) {
            test.block_on(test.host().sleep(std::time::Duration::from_millis(1)));
        }
        let halves = test.block_on(connector.connect(Sides::BOTH))?;
        assert!(halves.source.is_some());
    }
    Ok(())
}

#[test]
fn error_output_is_logged() -> Result<()> {
    let host = TestHost::new();
    let mut connection = host.connect::<Exec>(&shell("echo 'cannot find it' >&2; echo x", ""))?;
    pull_to_end(&mut connection);
    connection.stop()?;
    let log = host.log();
    assert!(log.iter().any(|(_, line)| line == "stderr: cannot find it"), "{log:?}");
    Ok(())
}

#[test]
fn connector_with_long_process_passes_conformance_checks() {
    conformance::connector::<Exec>(r#"{ "command": "cat" }"#).expect_no_faults();
}

#[test]
fn connector_with_short_process_passes_conformance_checks() {
    conformance::connector::<Exec>(r#"{ "command": "seq", "args": ["3000"] }"#).expect_no_faults();
}
