//! `cargo xtask perf-gate`: whether a flow takes more instructions an event than it did.
//!
//! Times differ from machine to machine and from hour to hour; the instructions of a program that
//! does the same work do not. So each of the benchmark's flows runs twice under callgrind, on the
//! same events, with one executor thread and pulls of a fixed size, once longer than the other: the
//! difference is what events take, without what starting takes. That is compared with
//! `bench/instructions.json`, which only `--update` changes.
//!
//! A count is no speed: what waits for memory, or guesses branches badly, costs time and no
//! instructions. And it is that of the code paths that valgrind's processor has: AVX2, not AVX-512.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    demo,
    generate_logs::{self, Format},
    process::need,
    project::{cargo, root, run as run_command, shown},
};

const FIGURES: &str = "bench/instructions.json";
/// The flows, and how often the file is replayed in their longer runs: so often that what else goes on,
/// such as who wakes whom, does not count.
const FLOWS: [(&str, u64); 6] = [
    ("passthrough", 402),
    ("passthrough-json", 42),
    ("passthrough-msgpack", 42),
    ("passthrough-two-inputs", 42),
    ("throughput-logging-json", 42),
    ("throughput-logging-msgpack", 42),
];
/// Events of the file that is replayed.
const EVENTS: u64 = 500;
/// How often the file is replayed in the shorter runs.
const FEW: u64 = 2;
/// Events a pull.
const PULL: u64 = 50;
/// What a flow may take more than before, in per cent.
const TOLERANCE: f64 = 2.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Makes what is counted now what is expected
    #[arg(long)]
    update: bool,
}

/// What is committed.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// The compiler and the machine that the figures are for.
    compiler: String,
    /// Instructions an event, by flow.
    instructions_per_event: BTreeMap<String, f64>,
}

/// How a comparison ended that did not fail.
pub(crate) enum Outcome {
    Compared,
    /// With a reason.
    Skipped(&'static str),
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match gate(arguments.update)? {
        Outcome::Compared => Ok(()),
        Outcome::Skipped(why) => bail!("{why}"),
    }
}

/// The gate as CI runs it.
pub(crate) fn check() -> Result<Outcome> {
    gate(false)
}

fn gate(update: bool) -> Result<Outcome> {
    if need("valgrind", "--version", "a package").is_err() {
        return Ok(Outcome::Skipped("no valgrind: install it to count instructions"));
    }
    let compiler = compiler()?;
    let expected = committed()?;
    if !update && expected.compiler != compiler {
        eprintln!("figures are for {}, this is {compiler}", expected.compiler);
        return Ok(Outcome::Skipped("the figures are another compiler's: update them with it"));
    }
    let counted = Figures { compiler, instructions_per_event: count_all()? };
    if update {
        let text = serde_json::to_string_pretty(&counted)? + "\n";
        let path = root().join(FIGURES);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let (table, worse) = compare(&expected, &counted);
    eprintln!("{table}");
    if worse.is_empty() || update {
        return Ok(Outcome::Compared);
    }
    bail!(
        "{} take more than {TOLERANCE} % more instructions than {FIGURES} says; if that is what you \
         want, `cargo xtask perf-gate --update` and say why in the commit",
        worse.join(", ")
    )
}

/// A table, and the flows that have become worse.
fn compare(expected: &Figures, counted: &Figures) -> (String, Vec<String>) {
    let mut table = vec![format!("{:<28} {:>10} {:>10}", "instructions an event", "before", "now")];
    let mut worse = Vec::new();
    for (flow, now) in &counted.instructions_per_event {
        let Some(before) = expected.instructions_per_event.get(flow) else {
            table.push(format!("{flow:<28} {:>10} {now:>10.0}", "-"));
            worse.push(flow.clone());
            continue;
        };
        let change = (now / before - 1.0) * 100.0;
        let verdict = if change > TOLERANCE {
            worse.push(flow.clone());
            "  WORSE"
        } else if change < -TOLERANCE {
            "  better: update the figures"
        } else {
            ""
        };
        table.push(format!("{flow:<28} {before:>10.0} {now:>10.0} {change:>+7.2} %{verdict}"));
    }
    (table.join("\n"), worse)
}

/// None yet is no error: every flow is new then.
fn committed() -> Result<Figures> {
    let path = root().join(FIGURES);
    if !path.exists() {
        return Ok(Figures::default());
    }
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("cannot read {}", path.display()))
}

fn count_all() -> Result<BTreeMap<String, f64>> {
    build()?;
    let folder = root().join("target/perf-gate");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    data(&folder.join("logs.json"), Format::Json)?;
    data(&folder.join("logs.msgpack.base64"), Format::MsgpackBase64)?;
    let count =
        |(flow, replays): (&str, u64)| Ok((flow.to_owned(), count(&folder, flow, replays)?));
    FLOWS.into_iter().map(count).collect()
}

fn data(path: &Path, format: Format) -> Result<()> {
    let output = Some(path.to_owned());
    generate_logs::run(&generate_logs::Arguments { lines: EVENTS, seed: 42, format, output })
}

/// Instructions an event.
fn count(folder: &Path, flow: &str, replays: u64) -> Result<f64> {
    let (few, many) = (instructions(folder, flow, FEW)?, instructions(folder, flow, replays)?);
    let sources = if flow.ends_with("two-inputs") { 2 } else { 1 };
    let events = sources * EVENTS * (replays - FEW);
    // Exact below 2^53.
    #[expect(clippy::cast_precision_loss)]
    Ok(many.saturating_sub(few) as f64 / events as f64)
}

/// Instructions of a whole run.
fn instructions(folder: &Path, flow: &str, replays: u64) -> Result<u64> {
    let path = folder.join(format!("{flow}.yaml"));
    let original = root().join("bench/flows").join(format!("{flow}.yaml"));
    let text = fs::read_to_string(&original)
        .with_context(|| format!("cannot read {}", original.display()))?;
    fs::write(&path, shortened(&text, replays)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let out = folder.join(format!("{flow}.callgrind"));
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", &format!("--callgrind-out-file={}", out.display())])
        .arg(root().join("target/release/tremor"))
        .arg("run")
        .arg(&path)
        .env("TREMOR_THREADS", "1")
        .env_remove("TREMOR_PLUGIN_PATH");
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} failed: {}\n{said}", shown(&command), output.status);
    }
    let profile =
        fs::read_to_string(&out).with_context(|| format!("cannot read {}", out.display()))?;
    total(&profile).with_context(|| format!("{} has no total", out.display()))
}

/// The flow of the benchmark, with as many events, and pulls of one size.
fn shortened(flow: &str, replays: u64) -> Result<String> {
    let (from, to) = ("warmup_s: 2, duration_s: 10 }", format!("iterations: {replays} }}"));
    let pull = format!("type: bench\n    pull: {{ max_events: {PULL} }}");
    let text = flow.replace(from, &to).replace("type: bench", &pull);
    let text = text.replace("../data/", "").replace("../../target/release", "../release");
    if !text.contains(&to) {
        bail!("a flow of bench/flows no longer says `{from}`");
    }
    Ok(text)
}

/// The number behind `summary:` or `totals:` in callgrind's output.
fn total(profile: &str) -> Option<u64> {
    let line = |name| profile.lines().find_map(|line: &str| line.strip_prefix(name));
    line("summary:").or_else(|| line("totals:"))?.trim().parse().ok()
}

/// Builds into `target/`, wherever else the caller builds: the flows name that folder. The program is that
/// of the demo, since to optimise it takes minutes.
fn build() -> Result<()> {
    demo::build()?;
    for package in ["connector-bench", "operator-logging"] {
        run_command(cargo([
            "build",
            "--release",
            "--target-dir=target",
            "--lib",
            "--package",
            package,
        ]))?;
    }
    Ok(())
}

/// The compiler, as far as it decides over instructions.
fn compiler() -> Result<String> {
    let mut command =
        Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| PathBuf::from("rustc").into()));
    let output = command.arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (release, host) = (line("release:"), line("host:"));
    Ok(format!("rustc {} {}", release.unwrap_or("?"), host.unwrap_or("?")))
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
    fn more_than_two_per_cent_more_is_worse_and_less_is_said() {
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
    fn the_total_is_found_in_a_profile() {
        assert_eq!(total("events: Ir\nsummary: 42\n"), Some(42));
        assert_eq!(total("events: Ir\nfn=x\n1 2\ntotals: 43\n"), Some(43));
        assert_eq!(total("events: Ir\n"), None);
    }
}
