//! Stack traces as .NET, PHP and Rust write them.

use serde_json::json;

use super::join;

/// Checks that `preset` and `all` join each trace, and nothing before or after it.
fn assert_joined(preset: &str, traces: &[&str]) {
    for trace in traces {
        let trace = trace.trim_end_matches('\n');
        let lines = format!("before\n{trace}\nafter\n{trace}\n{trace}\nend\n");
        let trace = trace.replace('\n', "|");
        for preset in [preset, "all"] {
            let found = join(&json!({ "preset": preset }), &lines);
            assert_eq!(found, ["before", &trace, "after", &trace, &trace, "end"], "{preset}");
        }
    }
}

#[test]
fn dotnet_traces_are_joined_with_inner_exceptions() {
    let inner = "Unhandled exception. System.InvalidOperationException: outer\n \
        ---> System.ArgumentException: inner (Parameter 'x')\n   at Program.Inner() in /src/Program.cs:line 21\n   \
        at Program.Outer() in /src/Program.cs:line 12\n   --- End of inner exception stack trace ---\n   \
        at Program.Outer() in /src/Program.cs:line 16\n   \
        at Program.<Main>(String[] args)\n";
    let rethrown = "System.IO.IOException: reset\n   at Client.ReadAsync() in /src/Client.cs:line 8\n\
        --- End of stack trace from previous location ---\n   at Program.Main() in /src/Program.cs:line 3\n\
        --- End of stack trace from previous location where exception was thrown ---\n   \
        at System.Runtime.CompilerServices.TaskAwaiter.ThrowForNonSuccess(Task task)\n";
    let aggregate = "System.AggregateException: One or more errors occurred. (a) (b)\n \
        ---> System.Exception: a\n   at Program.A() in /src/Program.cs:line 5\n   \
        --- End of inner exception stack trace ---\n   at System.Threading.Tasks.Task.WaitAll(Task[] tasks)\n \
        ---> (Inner Exception #1) System.Exception: b\n   at Program.B() in /src/Program.cs:line 6<---\n\n \
        ---> (Inner Exception #2) System.Exception: c<---\n";
    let logger = "fail: Microsoft.AspNetCore.Server.Kestrel[13]\n      \
        Connection id \"0HN7\": An unhandled exception was thrown by the application.\n      \
        System.InvalidOperationException: broken\n         at Program.<>c.<Main>b__0_0() in /src/Program.cs:line 9\n";
    assert_joined("dotnet", &[inner, rethrown, aggregate, logger]);
}

/// Lines that Mono 6.8 wrote. Those of the .NET Framework have the same form.
#[test]
fn mono_traces_are_joined_with_inner_exceptions() {
    let again = "System.InvalidOperationException: outer ---> System.ArgumentException: inner\n  \
        at P.O () [0x00000] in <174fd47e>:0 \n   --- End of inner exception stack trace ---\n  \
        at P.Main (System.String[] a) [0x00075] in <174fd47e>:0 \n\
        --- End of stack trace from previous location where exception was thrown ---\n\n  \
        at P.Main (System.String[] a) [0x00087] in <174fd47e>:0 \n";
    let aggregate = "System.AggregateException: One or more errors occurred. (a) (outer) ---> System.Exception: a\n  \
        at P.<Main>m__0 () [0x00000] in <174fd47e>:0 \n   --- End of inner exception stack trace ---\n  \
        at System.Threading.Tasks.Task.WaitAll (System.Threading.Tasks.Task[] tasks) [0x00000] in <12b418a7>:0 \n\
        ---> (Inner Exception #0) System.Exception: a\n  at P.<Main>m__0 () [0x00000] in <174fd47e>:0 <---\n\n\
        ---> (Inner Exception #1) System.Exception: outer<---\n\n";
    assert_joined("dotnet", &[again]);
    for preset in ["dotnet", "all"] {
        let found = join(&json!({ "preset": preset }), &format!("before\n{aggregate}after\n"));
        let trace = aggregate.strip_suffix('\n').unwrap_or_default().replace('\n', "|");
        assert_eq!(found, ["before", &trace, "after"]);
    }
    let argument = "System.ArgumentException: inner\nParameter name: x\n  at P.F ()\n";
    let found = join(&json!({ "preset": "dotnet" }), &format!("{argument}after\n"));
    assert_eq!(found, ["System.ArgumentException: inner|Parameter name: x|  at P.F ()", "after"]);
}

/// Lines that PHP 8.2 wrote, and those of the log of Laravel.
#[test]
fn php_traces_are_joined_with_exceptions_they_caused() {
    let chained = "[11-Oct-2024 22:14:15 UTC] PHP Fatal error:  Uncaught RuntimeException: inner in /srv/a.php:3\n\
        Stack trace:\n#0 /srv/a.php(7): f(1, 'x')\n#1 /srv/a.php(12): App->run()\n#2 {main}\n\n\
        Next LogicException: outer in /srv/a.php:9\nStack trace:\n#0 /srv/a.php(12): App->run()\n#1 {main}\n  \
        thrown in /srv/a.php on line 9\n";
    let monolog = "[2024-10-11 22:14:15] local.ERROR: outer \
        {\"exception\":\"[object] (LogicException(code: 0): outer at /srv/a.php:9)\n\
        [stacktrace]\n#0 /srv/a.php(12): App->run()\n#1 {main}\n\n\
        [previous exception] [object] (RuntimeException(code: 0): inner at /srv/a.php:3)\n\
        [stacktrace]\n#0 /srv/a.php(7): f()\n#1 {main}\n\"} \n";
    assert_joined("php", &[chained, monolog]);
}

/// Lines that Rust 1.95 wrote, except for the form of versions before 1.73.
#[test]
fn rust_panics_are_joined_with_text_and_backtrace() {
    const FRAMES: &str = "stack backtrace:\n   0: __rustc::rust_begin_unwind\n             \
        at /rustc/59807616e1fa/library/std/src/panicking.rs:689:5\n   1: <a::app::S as a::T>::run\n             \
        at ./a.rs:4:44\n\
        note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n";
    const NOTE: &str =
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
    let bounds = "thread 'main' (13905) panicked at a.rs:2:54:\n\
        index out of bounds: the len is 1 but the index is 7\n";
    let equal = "thread 'worker 1' (14098) panicked at a.rs:11:15:\n\
        assertion `left == right` failed: text\n  left: 1\n right: 2\n";
    let two = "thread 'main' (31118) panicked at a.rs:9:16:\nfirst line\nsecond line\n";
    let indented =
        "thread '<unnamed>' panicked at a.rs:9:16:\n  first line\nsecond line\n\nfourth\n";
    let old = "thread 'main' panicked at 'broken', src/main.rs:2:5\n";
    for panic in [bounds, equal, two, indented, old] {
        assert_joined("rust", &[&format!("{panic}{NOTE}"), &format!("{panic}{FRAMES}")]);
    }
    // The note follows the first panic of a process only.
    assert_joined("rust", &[bounds, equal, old]);
    let found = join(&json!({ "preset": "rust" }), &format!("{two}end"));
    let head = "thread 'main' (31118) panicked at a.rs:9:16:|first line";
    assert_eq!(found, [head, "second line", "end"]);
}

#[test]
fn rust_errors_are_joined_with_causes_and_backtrace() {
    let causes =
        "Error: cannot start\n\nCaused by:\n    0: cannot read `a.toml`\n    1: No such file\n";
    let backtrace =
        "\nStack backtrace:\n   0: anyhow::error::from\n             at ./src/lib.rs:5:3\n";
    assert_joined(
        "rust",
        &[
            "Error: \"broken\"",
            causes,
            &format!("{causes}{backtrace}"),
            &format!("Error: cannot start\n{backtrace}"),
        ],
    );
}
