//! `cargo xtask sanitize` and `cargo xtask randomize-layout`: the tests of the boundary, built by the
//! nightly compiler so that what is wrong in there shows.
//!
//! - AddressSanitizer ends a test at the first byte that is read or written where it should not be,
//!   in the host as in the plugins, which are built with it as well. Leaks are not looked for: the
//!   payload of a caught panic is leaked on purpose, and libraries are never unloaded.
//! - With randomised layouts every type without a fixed one has another in the host than in the
//!   plugins: the tests are built with one seed, the plugins that they build with another. What a
//!   plugin and the host take for the same and is not shows as an error or a failed test.
//!
//! CI has both in one build, which takes half the time of two. A failure there is found again by one
//! of the two commands.

use std::process::Command;

use anyhow::Result;

use crate::nightly;
use crate::project::{root, run as run_command};

/// The sanitizer's functions are in the executable; plugins have to find them there.
const ADDRESS: &str = "-Zsanitizer=address -Clink-arg=-Wl,--export-dynamic";
const LAYOUT: &str = "-Zrandomize-layout";

/// What works on memory that has crossed the boundary, from types to loaded plugins.
const TESTS: [&str; 9] = [
    "--package=tremor-abi",
    "--package=tremor-pdk",
    "--package=tremor-runtime",
    "--lib",
    "--test=batches",
    "--test=deep_values",
    "--test=fuzz_seeds",
    "--test=plugins",
    "--",
];

/// Those that are about something else and build much: plugins of other versions of the ABI, of
/// another toolchain, and their descriptions by a child process.
const SKIPPED: [&str; 3] = ["versions::", "toolchains::", "describe::"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Randomise layouts in the same build, as CI does
    #[arg(long)]
    randomize_layout: bool,
}

pub(crate) fn sanitize(arguments: &Arguments) -> Result<()> {
    if arguments.randomize_layout { both() } else { run(&[ADDRESS]) }
}

pub(crate) fn randomize_layout() -> Result<()> {
    run(&[LAYOUT])
}

pub(crate) fn both() -> Result<()> {
    run(&[ADDRESS, LAYOUT])
}

fn run(flags: &[&str]) -> Result<()> {
    nightly::required()?;
    let mut tests = cargo_test(flags);
    tests.args(TESTS).args(SKIPPED.map(|tests| format!("--skip={tests}")));
    run_command(tests)?;
    // Only this compiler compares the errors of examples that must not compile with those expected.
    let mut examples = cargo_test(flags);
    examples.args(["--package=tremor-abi", "--doc"]);
    run_command(examples)
}

fn cargo_test(flags: &[&str]) -> Command {
    let mut command = nightly::cargo(["test", "--target-dir=target/boundary"]);
    let flags = |seed: u8| format!("{} -Zlayout-seed={seed}", flags.join(" "));
    command.env("RUSTFLAGS", flags(1)).env("RUSTDOCFLAGS", flags(1));
    command.env("TREMOR_TEST_PLUGIN_RUSTFLAGS", flags(2));
    command.env("RUSTC_WRAPPER", root().join("scripts/fixed-layouts.sh"));
    // The flags are for what is tested, and not for the build scripts and macros that the compiler
    // runs. `--target` would do that as well, and put the plugins where the tests do not look.
    command.env("CARGO_UNSTABLE_TARGET_APPLIES_TO_HOST", "true");
    command.env("CARGO_TARGET_APPLIES_TO_HOST", "false");
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    // Frames are several times as large with the sanitizer.
    command.env("RUST_MIN_STACK", (8 << 20).to_string());
    command
}
