//! `cargo xtask perf-gate`: checks whether a flow takes more instructions per event than before.
//!
//! Times differ from machine to machine and from hour to hour, but the instructions of a program
//! that does the same work do not. Each of the benchmark's flows therefore runs twice under
//! callgrind, once with more events than the other time. Both runs use one thread for tasks, and
//! pulls of a fixed size. The difference of the two counts excludes the instructions of startup. It
//! is compared with `bench/instructions.json`, which only `--update` changes.
//!
//! A count of instructions does not measure speed, because cache misses and mispredicted branches take time but no
//! instructions. The code paths are those of valgrind's processor, which has AVX2 but not AVX-512.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::demo;
use crate::generate_logs;
use crate::project::{Skipped, cargo, is_on_path, output, root, run as run_command, rustc, write};

const FIGURES: &str = "bench/instructions.json";
/// The flows, and the number of replays of the file in their longer runs. The number is so large
/// that scheduling, such as the order of wake-ups, does not change the result.
const FLOWS: [(&str, u64); 6] = [
    ("passthrough", 402),
    ("passthrough-json", 42),
    ("passthrough-msgpack", 42),
    ("passthrough-two-inputs", 42),
    ("throughput-logging-json", 42),
    ("throughput-logging-msgpack", 42),
];
/// Number of events in the file that is replayed.
const EVENTS: u64 = 500;
/// Number of replays of the file in the shorter runs.
const FEW: u64 = 2;
/// Number of events per pull.
const PULL: u64 = 50;
/// Maximum increase of the instructions of a flow, in per cent.
const TOLERANCE: f64 = 2.0;
/// Settings of glibc with which all processors with AVX2 copy memory with the same code. Otherwise processors with fast
/// `rep movsb` or with transactional memory count up to 12 more instructions per event of `passthrough`.
const LIBC: &str = "glibc.cpu.hwcaps=-ERMS,-RTM";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Writes the current counts to bench/instructions.json as the expected ones
    #[arg(long)]
    update: bool,
}

/// The committed counts.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// Compiler and target with which the instructions were counted.
    compiler: String,
    /// Instructions per event, by flow.
    instructions_per_event: BTreeMap<String, f64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    gate(arguments.update)?.map_or(Ok(()), |why| bail!(why))
}

/// Counts instructions, and compares them with the committed counts, or replaces these if `update` is set.
pub(crate) fn gate(update: bool) -> Result<Skipped> {
    if !is_on_path("valgrind") {
        return Ok(Some("valgrind is not installed, so instructions cannot be counted".into()));
    }
    let compiler = format!("rustc {} {}", rustc("release")?, rustc("host")?);
    let path = root().join(FIGURES);
    let expected = fs::read(&path).with_context(|| format!("cannot read {FIGURES}"))?;
    let expected: Figures = serde_json::from_slice(&expected)?;
    if !update && expected.compiler != compiler {
        eprintln!("the figures are for {}, but the compiler is {compiler}", expected.compiler);
        return Ok(Some(
            "the figures were counted with another compiler; update them with `--update`".into(),
        ));
    }
    let counted = Figures { compiler, instructions_per_event: count_all()? };
    let (table, worse) = compare(&expected, &counted);
    eprintln!("{table}");
    if update {
        write(&path, &(serde_json::to_string_pretty(&counted)? + "\n"))?;
    } else if !worse.is_empty() {
        bail!(
            "{} take more than {TOLERANCE} % more instructions than {FIGURES} allows; if you accept that, run \
             `cargo xtask perf-gate --update` and give the reason in the commit message",
            worse.join(", ")
        )
    }
    Ok(None)
}

/// Returns a table of the counts, and the names of flows whose counts exceed the tolerance or have no expected value.
fn compare(expected: &Figures, counted: &Figures) -> (String, Vec<String>) {
    let mut table =
        vec![format!("{:<28} {:>10} {:>10}", "instructions per event", "before", "now")];
    let mut worse = Vec::new();
    for (flow, now) in &counted.instructions_per_event {
        let before = expected.instructions_per_event.get(flow).unwrap_or(&f64::NAN);
        let change = (now / before - 1.0) * 100.0;
        let verdict = match change {
            change if change < -TOLERANCE => "  better: update the figures",
            change if change <= TOLERANCE => "",
            // A flow without an expected value counts as worse.
            _ => "  WORSE",
        };
        worse.extend((verdict == "  WORSE").then(|| flow.clone()));
        table.push(format!("{flow:<28} {before:>10.0} {now:>10.0} {change:>+7.2} %{verdict}"));
    }
    (table.join("\n"), worse)
}

fn count_all() -> Result<BTreeMap<String, f64>> {
    build()?;
    let folder = root().join("target/perf-gate");
    generate_logs::write_all(&folder, EVENTS, 42)?;
    let count =
        |(flow, replays): (&str, u64)| Ok((flow.to_owned(), count(&folder, flow, replays)?));
    FLOWS.into_iter().map(count).collect()
}

/// Counts the instructions per event of a flow.
fn count(folder: &Path, flow: &str, replays: u64) -> Result<f64> {
    let (few, many) = (instructions(folder, flow, FEW)?, instructions(folder, flow, replays)?);
    let sources = if flow.ends_with("two-inputs") { 2 } else { 1 };
    let events = sources * EVENTS * (replays - FEW);
    // The two numbers are below 2^53, so they are exact as floats.
    #[expect(clippy::cast_precision_loss)]
    Ok(many.saturating_sub(few) as f64 / events as f64)
}

/// Counts the instructions of a whole run of a flow.
fn instructions(folder: &Path, flow: &str, replays: u64) -> Result<u64> {
    let path = folder.join(format!("{flow}.yaml"));
    let text = fs::read_to_string(root().join("bench/flows").join(format!("{flow}.yaml")))?;
    write(&path, &shortened(&text, replays)?)?;
    let out = folder.join(format!("{flow}.callgrind"));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", &format!("--callgrind-out-file={}", out.display())]);
    command.arg(root().join("target/release/tremor")).arg("run").arg(&path);
    command.env("TREMOR_THREADS", "1").env("GLIBC_TUNABLES", LIBC).env_remove("TREMOR_PLUGIN_PATH");
    output(&mut command)?;
    total(&fs::read_to_string(&out)?).with_context(|| format!("{} has no total", out.display()))
}

/// Returns the text of a benchmark's flow with `replays` replays of the file and pulls of a fixed size.
fn shortened(flow: &str, replays: u64) -> Result<String> {
    let (from, to) = ("warmup_s: 2, duration_s: 10 }", format!("iterations: {replays} }}"));
    let pull = format!("type: bench\n    pull: {{ max_events: {PULL} }}");
    let text = flow.replace(from, &to).replace("type: bench", &pull);
    let text = text.replace("../data/", "").replace("../../target/release", "../release");
    if !text.contains(&to) {
        bail!("a flow in bench/flows does not contain `{from}`");
    }
    Ok(text)
}

/// Returns the number behind `summary:` or `totals:` in callgrind's output.
fn total(profile: &str) -> Option<u64> {
    let line = |name| profile.lines().find_map(|line: &str| line.strip_prefix(name));
    line("summary:").or_else(|| line("totals:"))?.trim().parse().ok()
}

/// Builds into `target/`, even if the caller uses another target folder, because the flows name it. Uses the same
/// build of the program as the demo, because an optimised build takes minutes.
fn build() -> Result<()> {
    run_command(demo::build_command())?;
    for package in ["connector-bench", "operator-logging"] {
        let build = ["build", "--release", "--target-dir=target", "--lib", "--package", package];
        run_command(cargo(build))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[(&str, f64)]) -> Figures {
        let instructions_per_event =
            values.iter().map(|(flow, count)| ((*flow).to_owned(), *count)).collect();
        Figures { compiler: "rustc".to_owned(), instructions_per_event }
    }

    #[test]
    fn increase_over_tolerance_fails_and_decrease_is_shown() {
        let before = figures(&[("a", 1_000.0), ("b", 1_000.0), ("c", 1_000.0)]);
        let now = figures(&[("a", 1_019.0), ("b", 1_021.0), ("c", 900.0), ("new", 1.0)]);
        let (table, worse) = compare(&before, &now);
        assert_eq!(worse, ["b", "new"]);
        assert!(table.contains("+2.10 %  WORSE") && table.contains("-10.00 %  better"), "{table}");
    }

    #[test]
    fn every_flow_of_the_benchmark_can_be_shortened() {
        for (flow, _) in FLOWS {
            let path = root().join("bench/flows").join(format!("{flow}.yaml"));
            let text = shortened(&fs::read_to_string(path).unwrap(), 3).unwrap();
            assert!(text.contains("iterations: 3 }") && text.contains("max_events: 50"), "{text}");
            assert!(!text.contains("duration_s"), "{text}");
        }
    }

    #[test]
    fn total_is_found_in_a_profile() {
        assert_eq!(total("events: Ir\nsummary: 42\n"), Some(42));
        assert_eq!(total("events: Ir\nfn=x\n1 2\ntotals: 43\n"), Some(43));
        assert_eq!(total("events: Ir\n"), None);
    }
}
