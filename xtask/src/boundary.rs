//! `cargo xtask ci boundary`: the tests of the plugin boundary, built by the nightly compiler with two flags
//! that turn memory errors into failures.
//!
//! - AddressSanitizer ends a test at the first invalid read or write of memory, in the host and in the plugins, which
//!   are built with it as well. Leaks are not reported, because the payload of a caught panic is leaked on purpose, and
//!   libraries are never unloaded.
//! - With randomised layouts, every type without a fixed layout differs between the host and the plugins, because the
//!   tests are built with one seed, and the plugins that they build with another. If code depends on such a type having
//!   the same layout in both, a test fails.

use std::process::Command;

use anyhow::Result;

use crate::project::{Skipped, root, run};
use crate::tools::{has_nightly, nightly};

/// Compiler flags. Dynamic symbols are exported because plugins use the sanitizer's functions in the executable.
const FLAGS: &str = "-Zsanitizer=address -Clink-arg=-Wl,--export-dynamic -Zrandomize-layout";

/// Tests of code in the host that uses memory of a plugin, or in a plugin that uses memory of the host.
const TESTS: &str = "--package=tremor-abi --package=tremor-pdk --package=tremor-runtime \
    --features=tremor-abi/frame --lib --test=batches --test=deep_values --test=fuzz_seeds --test=plugins --";

/// Tests that are skipped because they check no access to memory and take long to build: plugins of
/// other ABI versions, plugins of another toolchain, and descriptions of plugins by a child
/// process.
const SKIPPED: [&str; 3] = ["versions::", "toolchains::", "describe::"];

pub(crate) fn check() -> Result<Skipped> {
    if !has_nightly() {
        return Ok(Some(
            "AddressSanitizer and randomised layouts (no nightly toolchain; `rustup toolchain install nightly` \
             provides it)".into(),
        ));
    }
    let mut tests = cargo_test();
    tests.args(TESTS.split(' ')).args(SKIPPED.map(|tests| format!("--skip={tests}")));
    run(tests)?;
    // Only nightly compares the errors of examples that must not compile with the expected ones.
    let mut examples = cargo_test();
    examples.args(["--package=tremor-abi", "--doc"]);
    run(examples)?;
    Ok(None)
}

fn cargo_test() -> Command {
    let mut command = nightly(["test", "--target-dir=target/boundary"]);
    let flags = |seed: u8| format!("{FLAGS} -Zlayout-seed={seed}");
    command.env("RUSTFLAGS", flags(1)).env("RUSTDOCFLAGS", flags(1));
    command.env("TREMOR_TEST_PLUGIN_RUSTFLAGS", flags(2));
    command.env("RUSTC_WRAPPER", root().join("scripts/fixed-layouts.sh"));
    // The flags must not apply to build scripts and macros, which the compiler runs. `--target` would have the same
    // effect, but would put the plugins in a folder in which the tests do not search.
    command.env("CARGO_UNSTABLE_TARGET_APPLIES_TO_HOST", "true");
    command.env("CARGO_TARGET_APPLIES_TO_HOST", "false");
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    // With the sanitizer, stack frames are several times as large.
    command.env("RUST_MIN_STACK", (8 << 20).to_string());
    command
}
