use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use tremor_abi::batch::{Event, HostBatch, HostOutput};
use tremor_pdk::{Batch, Output, Preprocessor, literal, testing::TestHost};

mod languages;

use super::Multiline;
use crate::processor::testing::{messages, pre, preprocessor, process, run};

fn text(messages: Vec<Vec<u8>>) -> Vec<String> {
    messages.into_iter().map(|it| String::from_utf8(it).unwrap()).collect()
}

/// Returns the messages of `lines`, with their lines separated by `|`.
fn join(config: &Value, lines: &str) -> Vec<String> {
    let mut found = Vec::new();
    for size in [1, 7, lines.len().max(1)] {
        let (messages, rejected) = run(&mut *pre("multiline", config), lines.as_bytes(), size);
        assert!(rejected.is_empty(), "{rejected:?}");
        let messages: Vec<_> = text(messages).iter().map(|it| it.replace('\n', "|")).collect();
        assert!(found.is_empty() || found == messages, "cut every {size} bytes");
        found = messages;
    }
    found
}

#[test]
fn patterns_decide_which_lines_belong_together() {
    let lines = "x\na1\nc\nx\nz\nx\na2\nz\nc\na3\na4\nc\nc";
    for (config, expected) in [
        (json!({ "begin": "^a" }), "x a1|c|x|z|x a2|z|c a3 a4|c|c"),
        (json!({ "continue": "^c" }), "x a1|c x z x a2 z|c a3 a4|c|c"),
        (json!({ "end": "^z" }), "x|a1|c|x|z x|a2|z c|a3|a4|c|c"),
        (json!({ "begin": "^a", "continue": "^c" }), "x a1|c x z x a2 z c a3 a4|c|c"),
        (json!({ "begin": "^a", "end": "^z" }), "x a1|c|x|z x a2|z c a3 a4|c|c"),
        (json!({ "continue": "^c", "end": "^z" }), "x a1|c x|z x a2|z c a3 a4|c|c"),
        (json!({ "begin": "^a", "continue": "^x", "end": "c" }), "x a1|c x z x a2 z c a3 a4|c c"),
        (json!({ "begin": "^a", "continue": "^c", "end": "^a4" }), "x a1|c x z x a2 z c a3 a4 c c"),
    ] {
        assert_eq!(join(&config, lines).join(" "), expected, "{config}");
    }
}

#[test]
fn limits_divide_messages_and_lose_nothing() {
    let config = json!({ "continue": "^ ", "max_lines": 3, "max_length": 12 });
    assert_eq!(join(&config, "a\n b\n c\n d\n e\nf"), ["a| b| c", " d| e", "f"]);
    assert_eq!(join(&config, "a\n bbbbb\n cccccc\n d"), ["a| bbbbb", " cccccc| d"]);
    let long = "x".repeat(30);
    assert_eq!(join(&config, &format!("{long}\n y")), [long, " y".to_owned()]);
}

#[test]
fn java_traces_are_joined() {
    let lines = "INFO start\n\
        java.lang.IllegalStateException: broken\n\
        \tat a.B.c(B.java:1)\n\
        \tSuppressed: java.io.IOException: close\n\
        \t\tat a.B.d(B.java:2)\n\
        Wrapped by: java.lang.RuntimeException: outer\n\
        ... 3 common frames omitted\n\
        Caused by: java.io.IOException: reset\n\
        \t... 12 more\n\
        INFO end\n\
        Captured\n";
    let found = join(&json!({ "preset": "java" }), lines);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[1].ends_with("|Caused by: java.io.IOException: reset|\t... 12 more"));
    assert_eq!([&found[0], &found[2], &found[3]], ["INFO start", "INFO end", "Captured"]);
}

#[test]
fn python_traces_are_joined_with_their_causes() {
    let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n\
        ValueError: bad\n";
    let chain = "\nDuring handling of the above exception, another exception occurred:\n\n";
    let found = join(
        &json!({ "preset": "python" }),
        &format!("before\n{trace}after\n{trace}{chain}{trace}{trace}end\n"),
    );
    let trace = trace.trim_end().replace('\n', "|");
    let chained = format!("{trace}|{}{trace}", chain.replace('\n', "|"));
    assert_eq!(found, ["before", &trace, "after", &chained, &trace, "end"]);
}

/// Lines that Python 3.11 wrote.
#[test]
fn python_groups_notes_and_long_texts_are_joined() {
    const FRAMES: &str =
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n";
    const CAUSE: &str =
        "\nThe above exception was the direct cause of the following exception:\n\n";
    const GROUP: &str = "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\"\n\
        \x20 | ExceptionGroup: two (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n\
        \x20   | ValueError: 1\n    | second line\n    +------------------------------------\n";
    let text = |text: &str| format!("{FRAMES}{text}\n");
    let one = text("KeyError: 'x'");
    for trace in [
        GROUP.to_owned(),
        format!("{GROUP}{CAUSE}{one}"),
        format!("{GROUP}{CAUSE}{GROUP}"),
        format!("{one}{CAUSE}{GROUP}{CAUSE}{one}"),
        format!("{}{CAUSE}{one}", text("DB: cannot connect\n[SQL: SELECT 1]")),
        format!("{}{CAUSE}{one}", text("E: x\n\ny z\n  indented\n\nf(x)\n}\nINFO z")),
        format!("{}{CAUSE}{GROUP}", text("E: x\n\ny z")),
        format!("{0}{CAUSE}{0}{CAUSE}{one}", text("E: x\na note")),
    ] {
        for preset in ["python", "all"] {
            let lines = format!("before\n{trace}after\n{trace}{trace}one\ntwo\n");
            let found = join(&json!({ "preset": preset }), &lines);
            let trace = trace.trim_end().replace('\n', "|");
            assert_eq!(found, ["before", &trace, "after", &trace, &trace, "one", "two"]);
        }
    }
    // Without a further traceback, nothing shows where the text ends.
    let lines = format!("{}\nb\n  c\n\n{one}", text("E: x\na\n\nThe above"));
    let found = join(&json!({ "preset": "python" }), &lines);
    let (first, one) = (text("E: x"), one.trim_end().replace('\n', "|"));
    let first = first.trim_end().replace('\n', "|");
    assert_eq!(found, [&first, "a", "", "The above", "", "b|  c", "", &one]);
}

/// Lines that Go 1.26 wrote.
#[test]
fn fatal_errors_and_signals_of_go_are_joined() {
    let overflow = "runtime: goroutine stack exceeds 1000000000-byte limit\n\
        runtime: sp=0x19263dc60388 stack=[0x19263dc60000, 0x19265dc60000]\n\
        fatal error: stack overflow\n\nruntime stack:\nruntime.throw({0x491047?, 0x524801?})\n\
        \t/usr/local/go/src/runtime/panic.go:1229 +0x48 fp=0x7fff160aada8\nruntime.morestack()\n\
        \t/usr/local/go/src/runtime/asm_amd64.s:681 +0x7d\n\n\
        goroutine 1 gp=0x19261db341e0 m=0 mp=0x5256a0 [running]:\nmain.f(...)\n\
        \t/tmp/so.go:2\n...44739053 frames elided...\nmain.f(0x0?)\n\t/tmp/so.go:2 +0x17\n\
        ...additional frames elided...\ncreated by runtime.gcenable in goroutine 1\n\
        \t/usr/local/go/src/runtime/mgc.go:215 +0xa5\n\n\
        goroutine 20 gp=0x5e6cb600960 m=nil [GOMAXPROCS updater (idle)]:\nruntime.goexit({})\n\
        \t/usr/local/go/src/runtime/asm_amd64.s:1771 +0x1\n";
    let deadlock = "fatal error: all goroutines are asleep - deadlock!\n\n\
        goroutine 1 [chan receive]:\nmain.main()\n\t/tmp/x.go:3 +0x1\n";
    let signal = "panic: runtime error: invalid memory address or nil pointer dereference\n\
        [signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x47a76b]\n\n\
        goroutine 1 [running]:\npanic({0x45c3c0?, 0x4b1d58?})\n\t/usr/panic.go:884 +0x212\n\
        [originating from goroutine 1]:\nmain.main()\n\t/tmp/x.go:3 +0x1\n";
    let quit = "SIGQUIT: quit\nPC=0x40816e m=0 sigcode=0\n\ngoroutine 1 [syscall]:\nmain.main()\n\
        \t/tmp/q.go:3 +0x65\n\nrax    0x0\nr15    0xffffffffffffffff\nrflags 0x202\n";
    for trace in [overflow, deadlock, signal, quit] {
        for preset in ["go", "all"] {
            let lines = format!("before\n{trace}after\n{trace}{trace}end\n");
            let found = join(&json!({ "preset": preset }), &lines);
            let trace = trace.trim_end().replace('\n', "|");
            assert_eq!(found, ["before", &trace, "after", &trace, &trace, "end"]);
        }
    }
}

#[test]
fn unrelated_lines_are_not_joined() {
    for lines in [
        "INFO start\n2024-01-02 INFO cache.rb:12:in 'warm'\nERROR at 3:in 'x'\nWARN :1:in 'y'",
        "INFO start\napp.rb:2:in 'f': cannot open 'x'\n:in 'y'\na:in 'y'",
        "done\n} else\n}\n{\"a\":1}\n}",
        "fatal error: foo.h: No such file\nreload(config)\nrax 0x1",
        "panic: button pressed\nreload(config)\ncreated by hand",
        "SIGTERM: bye\n\nreload(config)\nfatal error: x",
        "runtime: 5s\nruntime: 6s\nruntime: sp=1\nPC=0x1\n... more\n... x more",
        "a.rb:1:in 'f': x (ArgumentError)\n\n1.time {}\n2\nDid you mean?  times",
        "Require stack\n- a\n- b\nrax    0x0\n[signal x",
        "The above exception was the direct cause of the following exception:\na",
        "x<---\n\n--- End of file ---\nx",
        "#0 a\n\"}\n\nNext page\n[previous exception] x\nStack trace: none\n[stacktrace] x",
        "thread 'a' started\nx\nstack backtrace:\nnote: run with `RUST_BACKTRACE=1`\nx",
        "Error: x\n\ny\n\nCaused by\nnote: Some details are omitted, x\nStack backtrace:\nx",
    ] {
        let expected: Vec<_> = lines.split('\n').collect();
        for preset in ["java", "python", "go", "ruby", "node", "dotnet", "php", "rust", "all"] {
            assert_eq!(join(&json!({ "preset": preset }), lines), expected, "{preset}");
        }
    }
}

#[test]
fn lines_after_an_exception_wait_no_longer_than_the_timeout() {
    let host = TestHost::new();
    let mut joins = multiline(&host, &json!({ "preset": "python", "timeout": "1s" }));
    let trace = ["Traceback (most recent call last):", "  File", "E: x"];
    let step = |joins: &mut Multiline, new: &[&str]| {
        let mut batch = lines(1, new);
        assert!(process(joins, &mut batch).is_empty());
        let mut found = numbered(&batch);
        host.advance(std::time::Duration::from_millis(400));
        if joins.due().is_some_and(|due| due <= host.monotonic_ns()) {
            let mut batch = Batch::new();
            joins.on_time(host.monotonic_ns(), &mut batch, &mut Output::new()).unwrap();
            found.extend(numbered(&batch));
        }
        found.into_iter().map(|(text, _)| text.replace('\n', "|")).collect::<Vec<_>>()
    };
    assert_eq!(step(&mut joins, &trace), [""; 0]);
    assert_eq!(joins.buffered_since(1), Some(1));
    assert_eq!(step(&mut joins, &["a", "b"]), [""; 0]);
    assert_eq!(joins.buffered_since(1), Some(1), "the first call has lines in open messages");
    let whole = trace.join("|");
    assert_eq!(step(&mut joins, &["c", " d"]), [&whole, "a", "b"]);
    assert_eq!(joins.buffered_since(1), Some(3));
    assert_eq!(step(&mut joins, &[" e"]), [""; 0]);
    assert_eq!(step(&mut joins, &["f"]), ["c| d| e"]);
    assert_eq!(step(&mut joins, &[]), [""; 0]);
    assert_eq!(step(&mut joins, &[]), ["f"]);
    assert_eq!((joins.due(), joins.streams()), (None, vec![]));
    assert!(host.memory() <= 64 << 10, "at most one block remains");
    // The end of the stream, and a cut-off stream.
    for is_aborted in [false, true] {
        let mut batch = lines(1, &[&trace[..], &["a", "b"]].concat());
        if is_aborted {
            batch.stream(1).abort();
        } else {
            batch.stream(1).end();
        }
        let rejected = process(&mut joins, &mut batch);
        let expected = [&*trace.join("\n"), "a", "b"];
        assert_eq!(text(messages(&batch)), &expected[..3 - usize::from(is_aborted)]);
        assert_eq!(rejected.len(), usize::from(is_aborted));
    }
}

#[test]
fn messages_above_the_limits_are_not_reunited() {
    let trace = "Traceback (most recent call last):\n  f\nE: x\ny\n\n\
        The above exception was the direct cause of the following exception:\n\n\
        Traceback (most recent call last):\n  g\nE: z\n";
    for (config, first) in [
        (
            json!({ "preset": "python", "max_lines": 4 }),
            "Traceback (most recent call last):|  f|E: x",
        ),
        (
            json!({ "preset": "python", "max_length": 44 }),
            "Traceback (most recent call last):|  f|E: x",
        ),
    ] {
        let found = join(&config, trace);
        assert_eq!((&*found[0], &*found[1]), (first, "y"), "{found:?}");
        assert_eq!(found.join("|"), trace.trim_end().replace('\n', "|"));
    }
}

#[test]
fn ruby_and_node_traces_are_joined() {
    let ruby = "app.rb:2:in `foo': boom (RuntimeError)\n\tfrom app.rb:5:in `bar'";
    let rails = "RuntimeError (boom):\napp/x.rb:3:in `index'\napp/y.rb:30:in 'Y#call'";
    let found = join(&json!({ "preset": "ruby" }), &format!("I'm 'fine'\n{ruby}\n{rails}\nend"));
    let one = |lines: &str| lines.replace('\n', "|");
    assert_eq!(found, ["I'm 'fine'", &one(ruby), &one(rails), "end"]);
    let node = "TypeError: x is not a function\n    at f (/a.js:1:2) {\n  code: 'X'\n}";
    let found = join(&json!({ "preset": "node" }), &format!("start\n{node}\nend"));
    assert_eq!(found, ["start", &one(node), "end"]);
    let module = "Error: Cannot find module './x'\nRequire stack:\n- /a.js\n- /b.js\n    at f (/a.js:1:2) {\n\
        \x20 requireStack: [\n    '/a.js'\n  ]\n}";
    let cause = "Error: outer\n    at f (/a.js:1:2) {\n  [cause]: Error: inner\n\
        \x20     at g (/a.js:2:3) {\n    n: 1\n  }\n}";
    let object = "user {\n  name: 'x'\n} {\n  a: 1\n}";
    let code = "a.rb:1:in 'f': undefined method 'time' for an instance of Integer (NoMethodError)\n\n\
        1.time {}\n ^^^^^\n\
        Did you mean?  times\n\tfrom a.rb:3:in '<main>'";
    let indented = "a.rb:1:in `f': undefined local variable or method `x' (NameError)\n\n\
        \x20   f(x)\n      ^\n\tfrom a.rb:3";
    let eval =
        "RuntimeError (x):\n(eval at /a b.rb:3):1:in 'f'\n<internal:kernel>:187:in 'Kernel#loop'";
    for text in [module, cause, object, code, indented, eval] {
        let found = join(&json!({ "preset": "all" }), &format!("start\n{text}\nend\n{text}"));
        assert_eq!(found, ["start", &one(text), "end", &one(text)]);
    }
    let all = format!("{ruby}\n{node}\nCaused by: x\nend");
    let found = join(&json!({ "preset": "all" }), &all);
    assert_eq!(found, [one(ruby), format!("{}|Caused by: x", one(node)), "end".to_owned()]);
}

#[test]
fn invalid_configurations_name_key_and_remedy() {
    for (config, expected) in [
        (json!({}), "no rule states which lines belong together; set `preset`"),
        (json!({ "preset": "java", "end": "x" }), "`end`: cannot be combined with `preset`"),
        (json!({ "begin": "a(" }), "`begin`: regex parse error:\n    a(\n     ^\nerror: unclosed"),
        (json!({ "continue": "" }), "`continue`: expected a regular expression, found an empty"),
        (json!({ "preset": "cobol" }), "`preset`: unknown variant `cobol`, expected one of `java`"),
        (json!({ "begin": "a", "timeout": 5 }), "`timeout`: expected a time with its unit"),
    ] {
        let error = preprocessor("multiline", &config).err().unwrap().to_string();
        assert!(error.starts_with(expected), "{config}: {error}");
    }
}

fn multiline(host: &TestHost, config: &Value) -> Multiline {
    host.component(&config.to_string()).unwrap()
}

/// Adds lines to a batch, as `lines` and `cri` would: those that begin with `!` come from standard error.
fn lines(stream: u64, lines: &[&str]) -> Batch {
    let mut batch = Batch::new();
    for line in lines {
        batch.stream(stream).push_message(line.as_bytes());
        let side = if line.starts_with('!') { "stderr" } else { "stdout" };
        let number = batch.len();
        let metadata = literal!({ "cri": { "stream": side }, "line": number });
        batch.set_metadata(number - 1, metadata);
    }
    batch.set_origin("here");
    batch
}

#[test]
fn line_end_of_a_whole_message_is_removed() {
    let host = TestHost::new();
    let mut multiline = multiline(&host, &json!({ "begin": "^[a-c]" }));
    let mut batch = lines(1, &["a\n", " 1\r\n", "b", "c\n\n"]);
    batch.stream(1).end();
    assert!(process(&mut multiline, &mut batch).is_empty());
    assert_eq!(text(messages(&batch)), ["a\n 1", "b", "c\n"]);
}

/// Returns the messages, each with the number of its first line.
fn numbered(batch: &Batch) -> Vec<(String, u64)> {
    batch.validate().unwrap();
    let one = |event: &Event| {
        assert_eq!(batch.origin(event), Some("here"));
        let line = batch.metadata(event).unwrap().get("line").unwrap().as_u64().unwrap();
        (String::from_utf8(batch.raw(event).unwrap().to_vec()).unwrap(), line)
    };
    batch.events().iter().map(one).collect()
}

#[test]
fn standard_error_does_not_tear_traces_of_standard_output() {
    let host = TestHost::new();
    let mut joins = multiline(&host, &json!({ "continue": r"^!?\s" }));
    let mut batch = lines(1, &["a", "!b", " a2", "! b2", " a3", "c"]);
    assert!(process(&mut joins, &mut batch).is_empty());
    assert_eq!(numbered(&batch), [("a\n a2\n a3".to_owned(), 1)]);
    let batch = host.pass_time(&mut joins).unwrap();
    let expected = [("c".to_owned(), 6), ("!b\n! b2".to_owned(), 2)];
    let mut found = numbered(&batch);
    found.sort_by_key(|(_, line)| std::cmp::Reverse(*line));
    assert_eq!(found, expected);
    assert_eq!((joins.due(), joins.streams()), (None, vec![]));
}

#[test]
fn timeout_runs_for_each_side_by_itself() {
    let host = TestHost::new();
    let mut joins = multiline(&host, &json!({ "continue": r"^!?\s", "timeout": "1s" }));
    process(&mut joins, &mut lines(1, &["!b"]));
    let mut found = Vec::new();
    for _ in 0..4 {
        host.advance(std::time::Duration::from_millis(400));
        process(&mut joins, &mut lines(1, &[" a"]));
        let mut batch = Batch::new();
        if joins.due().is_some_and(|due| due <= host.monotonic_ns()) {
            joins.on_time(host.monotonic_ns(), &mut batch, &mut Output::new()).unwrap();
        }
        found.extend(numbered(&batch));
    }
    assert_eq!(found, [("!b".to_owned(), 1)]);
    assert!(joins.buffers(1));
}

#[test]
fn usual_lines_are_not_copied() {
    let host = TestHost::new();
    let mut joins = multiline(&host, &json!({ "preset": "all" }));
    let mut batch = Batch::new();
    batch.stream(1).push_fragment(b"one\ntwo\n a\nthree\nfour\nfive\n");
    let before = batch.bytes().len();
    assert!(process(&mut joins, &mut batch).is_empty());
    assert_eq!(text(messages(&batch)), ["one", "two\n a", "three", "four"]);
    assert_eq!(batch.bytes().len(), before + "two\n a".len());
}

#[test]
fn aborted_stream_rejects_its_open_message() {
    let host = TestHost::new();
    let mut joins = multiline(&host, &json!({ "preset": "all" }));
    process(&mut joins, &mut lines(1, &["a", " b"]));
    let mut batch = Batch::new();
    batch.stream(1).abort();
    let mut output = Output::new();
    joins.process(&mut batch, &mut output).unwrap();
    let rejected = output.take_rejected();
    assert_eq!(batch.original(&rejected[0].event), b"a\n b");
    let expected = "the stream was cut off within a message, of which 4 bytes were received";
    assert_eq!(rejected[0].error.to_string(), expected);
    assert!(!joins.buffers(1) && batch.events()[0].is_stream_end());
}

#[test]
fn many_streams_end_messages_early_at_the_memory_limit() {
    let host = TestHost::new();
    host.set_memory_limit(1 << 20);
    let mut joins = multiline(&host, &json!({ "preset": "all" }));
    let line = "x".repeat(100_000);
    let mut emitted = 0;
    for stream in 0..100 {
        let mut batch = Batch::new();
        batch.stream(stream).push_message(line.as_bytes());
        assert!(process(&mut joins, &mut batch).is_empty());
        emitted += batch.len();
    }
    assert!(host.memory() <= (1 << 20) + (64 << 10), "{}", host.memory());
    let mut ends = Batch::new();
    (0..100).for_each(|stream| ends.stream(stream).end());
    process(&mut joins, &mut ends);
    assert!((5..100).contains(&messages(&ends).len()));
    assert_eq!(emitted + messages(&ends).len(), 100);
    assert!(host.memory() <= 64 << 10, "at most one block remains");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn messages_do_not_depend_on_cuts(
        lines in vec("(| |\tat f|Caused by: x|Traceback \\(most recent call last\\):|panic: x|\
            goroutine 1 \\[running\\]:|main\\.f\\(\\)|E: x|\\}|x \\{|a:1:in 'f'|2024 x|Error: x|Caused by:|\
            Stack trace:|#0 a|Next b|thread 'm' panicked at a:1:2:|\
            stack backtrace:|note: run with `RUST_BACKTRACE=1`| a<---|The above exception was the \
            direct cause of the following exception:|\
            \x20 \\+ Exception Group Traceback \\(most recent call last\\):)\r?\n", 0..30),
        cuts in vec(1..40_usize, 1..20),
        which in 0..3_usize,
    ) {
        let config = [
            json!({ "preset": "all" }),
            json!({ "begin": "^2024", "continue": "^ ", "end": "^E" }),
            json!({ "begin": "^2024", "max_lines": 4, "max_length": 40 }),
        ][which].clone();
        let text = lines.concat().into_bytes();
        let (expected, _) = run(&mut *pre("multiline", &config), &text, text.len().max(1));
        let mut joins = pre("multiline", &config);
        let (mut found, mut at) = (Vec::new(), 0);
        for cut in cuts.iter().cycle() {
            if at == text.len() {
                break;
            }
            let end = text.len().min(at + cut);
            let mut batch = Batch::new();
            batch.stream(0).push_fragment(&text[at..end]);
            prop_assert!(process(&mut *joins, &mut batch).is_empty());
            found.extend(messages(&batch));
            at = end;
        }
        let mut end = Batch::new();
        end.stream(0).end();
        prop_assert!(process(&mut *joins, &mut end).is_empty());
        found.extend(messages(&end));
        prop_assert_eq!(&found, &expected);
        let lines: Vec<_> = lines.iter().map(|line| line.trim_end_matches(['\r', '\n'])).collect();
        let whole = String::from_utf8(expected.join(&b"\n"[..])).unwrap();
        prop_assert_eq!(whole, lines.join("\n"), "no byte is lost");
    }
}
