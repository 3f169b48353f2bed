//! The runner of the commands that test `tremor` as a process, such as `cargo xtask crash`. Each command implements
//! [`Scenario`]. The runner builds the program, runs the parts of the scenario, each in its own folder, and writes the
//! judgement.

use std::fmt::{Display, Write as _};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf, absolute};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::built::{self, Built};
use crate::process::{Process, Program, load};
use crate::project::{empty_folder, write};

/// Maximum time for steps whose duration depends on the speed of the machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// Options that all scenarios share.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Build in the profile `release`
    #[arg(long)]
    release: bool,
    /// Folder for summary.txt, tables, flows and logs, which is emptied first; unless given, target/COMMAND
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// A test of `tremor` that runs flows and peers, disturbs them, measures what happens, and judges
/// whether the flows kept their guarantees.
pub(crate) trait Scenario {
    /// Name of the command.
    const NAME: &'static str;
    /// Packages of the plugins in the flows.
    const PLUGINS: &'static [&'static str] = &[];
    /// Names of the parts, such as two configurations. Each part is played and judged separately, in a folder with its
    /// name.
    const PARTS: &'static [&'static str] = &[""];
    /// Measurements of a part.
    type Found;

    /// Builds the program and plugins, and copies them to a folder.
    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        built::build(Self::PLUGINS, release, to)
    }

    /// Starts flows and peers, disturbs them, and returns the measurements.
    fn play(&self, stage: &Stage<'_>) -> Result<Self::Found>;

    /// Compares the measurements of a part with their limits.
    fn judge(&self, found: &Self::Found) -> Result<Judgement>;
}

/// A scenario with the options that all scenarios share.
#[derive(Debug, clap::Args)]
pub(crate) struct Harness<S: Scenario + clap::Args> {
    #[command(flatten)]
    scenario: S,
    #[command(flatten)]
    options: Options,
}

impl<S: Scenario + clap::Args> Harness<S> {
    pub(crate) fn run(&self) -> Result<()> {
        run(&self.scenario, &self.options)
    }
}

/// The folder and the build for a part.
pub(crate) struct Stage<'a> {
    /// Name of the part.
    pub(crate) part: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) built: &'a Built,
}

impl Stage<'_> {
    /// Starts `tremor run` with these arguments, with the log `NAME.log` in the folder of the part.
    pub(crate) fn start(&self, name: &str, arguments: &[&str]) -> Result<Process> {
        Program::tremor(self.built, name, &self.folder).arguments(arguments).start()
    }

    /// Writes a flow file from its template in `xtask/src/flows`, in which each value replaces its name between `@`.
    pub(crate) fn flow(&self, name: &str, text: &str, by: &[(&str, &dyn Display)]) -> Result<()> {
        let text = by.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("@{name}@"), &value.to_string())
        });
        self.write(name, &text)
    }

    /// Writes a file in the folder of the part.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        write(&self.folder.join(name), text)
    }
}

/// The verdict on a part: findings for the summary, and the number of broken guarantees.
#[derive(Default)]
pub(crate) struct Judgement {
    /// Text for the summary.
    pub(crate) text: String,
    /// Number of guarantees that are broken.
    pub(crate) broken: usize,
    /// Names and contents of files that are written beside the summary.
    pub(crate) files: Vec<(&'static str, String)>,
}

impl Judgement {
    /// Adds a line to the summary.
    pub(crate) fn line(&mut self, line: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// Adds a finding with the name `what`. If `holds` is not set, the guarantee is counted as
    /// broken.
    pub(crate) fn add(&mut self, what: &str, found: impl Display, holds: bool) {
        let verdict = if holds { "" } else { "; BROKEN" };
        self.broken += usize::from(!holds);
        self.line(format_args!("  {what:12} {found}{verdict}"));
    }
}

/// Runs all parts of a scenario, and judges them.
///
/// # Errors
/// A guarantee is broken.
pub(crate) fn run<S: Scenario>(scenario: &S, options: &Options) -> Result<()> {
    let folder = options.output.clone().unwrap_or_else(|| Path::new("target").join(S::NAME));
    let folder = absolute(folder)?;
    empty_folder(&folder)?;
    let built = scenario.build(options.release, &folder.join("bin"))?;
    let profile = if options.release { "release" } else { "dev" };
    let mut broken = 0;
    for &part in S::PARTS {
        let stage = Stage { part, folder: folder.join(part), built: &built };
        fs::create_dir_all(&stage.folder)?;
        let started = Instant::now();
        let found = scenario.play(&stage);
        let found = found.with_context(|| format!("{}: see {}", S::NAME, folder.display()))?;
        let took = started.elapsed().as_secs();
        let judgement = scenario.judge(&found)?;
        let head = format!("profile {profile}, {took} s, load average at the end {}", load());
        let title = if part.is_empty() { String::new() } else { format!("{part}: ") };
        let text = format!("{title}{head}\n{}", judgement.text);
        write!(io::stdout(), "{text}")?;
        stage.write("summary.txt", &text)?;
        judgement.files.iter().try_for_each(|(name, text)| stage.write(name, text))?;
        broken += judgement.broken;
    }
    eprintln!("summaries, tables and logs are in {}", folder.display());
    ensure!(broken == 0, "{broken} guarantees are broken: see {}", folder.display());
    Ok(())
}

/// Returns rows as CSV with a header.
pub(crate) fn csv<T: Serialize>(rows: impl IntoIterator<Item = T>) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    rows.into_iter().try_for_each(|row| writer.serialize(row))?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// Returns the minimum, the median and the maximum; NaN if there are no values.
pub(crate) fn spread(values: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => [f64::NAN; 3],
        count => [values[0], values[count / 2], values[count - 1]],
    }
}

#[allow(clippy::cast_precision_loss)] // fewer than 2^53 bytes
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns the numbers of events that a flow took in and delivered, from its summary in the log.
///
/// # Errors
/// The log has no summary of the flow, or one with a failure or dead letters.
pub(crate) fn counts(log: &str, flow: &str) -> Result<(u64, u64)> {
    let (line, counts) =
        summary(log, flow).with_context(|| format!("no summary of the flow `{flow}`"))?;
    let is_whole = !line.contains("failed") && line.contains(" 0 dead-lettered");
    ensure!(is_whole, "the flow `{flow}` has lost events: {line}");
    Ok(counts)
}

/// Returns the summary of a flow in a log, and its numbers of events in and out.
pub(crate) fn summary<'a>(log: &'a str, flow: &str) -> Option<(&'a str, (u64, u64))> {
    let begins = format!("flow `{flow}`: ");
    let line = log.lines().find_map(|line| line.strip_prefix(&begins))?;
    let mut numbers = line.split([' ', ',']).filter_map(|word| word.parse().ok());
    Some((line, (numbers.next()?, numbers.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_minimum_median_and_maximum() {
        let spread = spread([3.0, 1.0, 2.0]).map(|it| format!("{it}"));
        assert_eq!(spread, ["1", "2", "3"]);
    }

    #[test]
    fn summary_of_a_flow_has_its_counts() {
        let log =
            |counts: &str| format!("a line\nflow `outage`: {counts}, 0 dead-lettered, 1.2 s\n");
        assert_eq!(counts(&log("30 events in, 29 out"), "outage").unwrap(), (30, 29));
        assert!(counts(&log("30 events in, 29 out, 1 failed"), "outage").is_err());
        assert!(counts(&log("30 events in, 30 out"), "other").is_err());
    }

    #[test]
    fn broken_findings_are_counted() {
        let mut judgement = Judgement::default();
        judgement.add("lost", "0 events", true);
        judgement.add("torn", "1 event", false);
        assert_eq!(judgement.broken, 1);
        assert_eq!(judgement.text, "  lost         0 events\n  torn         1 event; BROKEN\n");
    }
}
