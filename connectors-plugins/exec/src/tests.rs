use std::{fs, path::Path};

use tremor_pdk::{
    Batch, Connector as _, ErrorKind, EventRef, Halves, Pull, RawBatch, Result, Sides, Source as _,
    testing::{Connection, TestHost, conformance},
};

use super::Exec;

/// A shell with this script, and further keys.
fn shell(script: &str, keys: &str) -> String {
    let script = serde_json_text(script);
    format!(r#"{{ "command": "sh", "args": ["-c", {script}] {keys} }}"#)
}

/// A text as JSON has it.
fn serde_json_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// How a source has ended.
#[derive(Debug)]
struct Brought {
    bytes: Vec<u8>,
    is_aborted: bool,
    end: Result<Pull>,
}

/// Pulls until there is nothing more.
fn bring(connection: &mut Connection) -> Brought {
    let (mut bytes, mut is_aborted) = (Vec::new(), false);
    loop {
        match connection.pull() {
            Ok((Pull::Events, batch)) => {
                for event in &batch {
                    bytes.extend_from_slice(event.raw().unwrap_or_default());
                    is_aborted |= event.is_stream_aborted();
                }
            }
            Ok((end, _)) => return Brought { bytes, is_aborted, end: Ok(end) },
            Err(error) => return Brought { bytes, is_aborted, end: Err(error) },
        }
    }
}

fn run(config: &str) -> Brought {
    let mut connection = TestHost::new().connect::<Exec>(config).unwrap();
    let brought = bring(&mut connection);
    connection.stop().unwrap();
    brought
}

fn message(text: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push_message(text);
    batch
}

/// Whether a process runs, or nobody has asked for its end.
fn is_there(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

/// Waits until a process is gone that is no child of this one.
fn wait_until_gone(pid: &str) {
    while fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
    {
        std::thread::yield_now();
    }
}

#[test]
fn what_a_process_writes_is_brought_to_its_end() {
    let brought = run(&shell("printf 'one\\ntwo\\n'; printf half", ""));
    assert_eq!(brought.bytes, b"one\ntwo\nhalf");
    assert!(!brought.is_aborted, "the process has ended by itself: the last line is whole");
    assert_eq!(brought.end, Ok(Pull::Finished));
}

#[test]
fn a_process_that_was_killed_leaves_no_half_line() {
    let brought = run(&shell("printf 'one\\nhalf'; kill -9 $$", ""));
    assert_eq!(brought.bytes, b"one\nhalf");
    assert!(brought.is_aborted);
    let error = brought.end.unwrap_err();
    assert_eq!((error.kind(), error.is_final()), (ErrorKind::CONNECTION_LOST, false));
    assert!(error.to_string().contains("`sh` (process "), "{error}");
    assert!(error.to_string().ends_with("was ended by signal 9"), "{error}");
}

#[test]
fn the_key_restart_says_what_an_end_means() {
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
    assert!(error.to_string().contains("exit status 3, and `restart: never` is set"), "{error}");
}

#[test]
fn both_sides_are_of_one_process() -> Result<()> {
    let mut connection = TestHost::new().connect::<Exec>(&shell("cat; echo end", ""))?;
    for number in 0..3 {
        let text = format!("message {number}\n");
        connection.deliver(&message(text.as_bytes())).unwrap();
        let (_, batch) = connection.pull()?;
        assert_eq!(batch.first().and_then(EventRef::raw), Some(text.as_bytes()));
        assert_eq!(batch.first().and_then(EventRef::origin), Some("sh"));
    }
    // After the last event its input ends, and what it has to say then is brought.
    connection.close_sink()?;
    let brought = bring(&mut connection);
    assert_eq!(brought.bytes, b"end\n");
    assert_eq!(brought.end, Ok(Pull::Finished));
    connection.stop()
}

#[test]
fn arguments_go_to_the_program_as_they_are_and_so_does_its_environment() {
    let script = r#"printf '%s|' "$0" "$@"; printf '%s' "$GREETING""#;
    let script = serde_json_text(script);
    let brought = run(&format!(
        r#"{{ "command": "sh", "args": ["-c", {script}, "$HOME", "a b", "*", ""], "env": {{ "GREETING": "; ls" }} }}"#
    ));
    assert_eq!(String::from_utf8(brought.bytes).unwrap(), "$HOME|a b|*||; ls");
}

#[test]
fn relative_paths_start_at_the_folder_of_the_flow() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir()?;
    let script = folder.path().join("tool");
    fs::create_dir(folder.path().join("inner"))?;
    // The file is not written by this process while another test starts one: that would be "text busy".
    let written = std::process::Command::new("sh")
        .args(["-c", "printf '#!/bin/sh\\nbasename \"$PWD\"\\n' > \"$0\""])
        .arg(&script)
        .status()?;
    assert!(written.success());
    let host = TestHost::new();
    host.set_folder(folder.path());
    let config = r#"{ "command": "./tool", "working_directory": "inner" }"#;
    let error = host.connect::<Exec>(config).err().unwrap();
    assert!(error.to_string().contains("may not be executed"), "{error}");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let mut connection = host.connect::<Exec>(config)?;
    assert_eq!(bring(&mut connection).bytes, b"inner\n");
    connection.stop()
}

#[test]
fn a_program_that_is_not_there_is_named_with_what_to_do() {
    let cases = [
        (r#"{ "command": "no-such-program" }"#, "`no-such-program`: no folder of `PATH`"),
        (r#"{ "command": "./no/such" }"#, "`./no/such`: there is no "),
        (
            r#"{ "command": "cat", "working_directory": "/no/such" }"#,
            "`working_directory` is `/no/such`",
        ),
    ];
    for (config, expected) in cases {
        let error = TestHost::new().connect::<Exec>(config).err().unwrap();
        assert!(error.is_final(), "time does not mend it");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn what_no_process_can_be_started_with_is_refused_before_that() {
    let cases = [
        (r#"{ "command": "" }"#, "`command` is empty"),
        (r#"{ "command": "a\u0000b" }"#, "`command` has a NUL byte"),
        (r#"{ "command": "a", "args": ["", "\u0000"] }"#, "`args[1]` has a NUL byte"),
        (r#"{ "command": "a", "env": { "A=B": "" } }"#, "`env` has the name `A=B`"),
        (r#"{ "command": "a", "env": { "A": "\u0000" } }"#, "`env.A` has a NUL byte"),
    ];
    for (config, expected) in cases {
        let error = TestHost::new().component::<Exec>(config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn all_of_a_large_output_is_brought_and_only_as_it_is_pulled() {
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
fn a_process_that_reads_nothing_holds_up_its_sink_and_is_not_waited_for_at_the_end() -> Result<()> {
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
fn a_process_that_ends_while_it_is_written_to_is_told_of() -> Result<()> {
    // With an exit status of 0 it is not started again, and the events have nowhere to go.
    for (script, is_final) in [("exec <&-; exit 3", false), ("exit 0", true)] {
        let mut connection = TestHost::new().connect::<Exec>(&shell(script, ""))?;
        let host_bytes = message(&vec![b'x'; 1 << 20]);
        // Its output ends before its sink answers: nothing of it is lost.
        let output = bring(&mut connection);
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
fn a_process_that_ignores_sigterm_is_killed() -> Result<()> {
    let script = "trap '' TERM; echo $$; while :; do sleep 1000; done";
    let mut connection = TestHost::new().connect::<Exec>(&shell(script, ""))?;
    let (_, batch) = connection.pull()?;
    let pid = String::from_utf8(batch.first().unwrap().raw().unwrap().to_vec()).unwrap();
    assert!(is_there(&pid));
    connection.stop()?;
    assert!(!is_there(&pid), "killed, and reaped");
    Ok(())
}

#[test]
fn what_a_process_has_started_holds_up_nothing_and_ends_with_it() -> Result<()> {
    // It has the pipes still, and would have them for long.
    let script = "trap '' TERM; sleep 1000 & echo $!";
    let host = TestHost::new();
    let mut connection = host.connect::<Exec>(&shell(script, ""))?;
    let brought = bring(&mut connection);
    assert_eq!(brought.end, Ok(Pull::Finished));
    assert!(!brought.is_aborted);
    let log = host.log();
    assert!(log.iter().any(|(_, line)| line.contains("still has its output open")), "{log:?}");
    let pid = String::from_utf8(brought.bytes).unwrap();
    connection.stop()?;
    wait_until_gone(&pid);
    Ok(())
}

#[test]
fn a_connector_that_is_dropped_leaves_no_process() -> Result<()> {
    let host = TestHost::new();
    let mut connection = host.connect::<Exec>(&shell("echo $$; exec cat", ""))?;
    let (_, batch) = connection.pull()?;
    let pid = String::from_utf8(batch.first().unwrap().raw().unwrap().to_vec()).unwrap();
    drop(connection);
    // What is left to do is done on a thread for blocking work.
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
        assert!(is_there(&pid), "the sink has it");
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
fn what_it_says_of_errors_is_logged() -> Result<()> {
    let host = TestHost::new();
    let mut connection = host.connect::<Exec>(&shell("echo 'cannot find it' >&2; echo x", ""))?;
    bring(&mut connection);
    connection.stop()?;
    let log = host.log();
    assert!(log.iter().any(|(_, line)| line == "stderr: cannot find it"), "{log:?}");
    Ok(())
}

#[test]
fn it_keeps_the_contract_of_plugins_with_a_process_that_waits() {
    conformance::connector::<Exec>(r#"{ "command": "cat" }"#).expect_no_faults();
}

#[test]
fn it_keeps_the_contract_of_plugins_with_a_process_that_ends() {
    conformance::connector::<Exec>(r#"{ "command": "seq", "args": ["3000"] }"#).expect_no_faults();
}
