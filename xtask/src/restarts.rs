//! `cargo xtask restarts`: connectors that are restarted again and again, by the admin API, while events
//! flow through them and another flow runs at full load; what the process holds before and after.

use std::path::{PathBuf, absolute};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::built;
use crate::project::root;
use crate::running::{Api, Running, empty_folder, load, write};

const PLUGINS: [&str; 4] =
    ["connector-bench", "connector-file", "connector-null", "fixture-hostile"];
/// How much the process may have grown, in bytes.
const GROWTH: u64 = 1 << 20;
/// The part of the restarts, from the first, in which memory may still find its level.
const WARM_UP: u64 = 4;
/// Fewer restarts after the warm-up say nothing of memory.
const LEAST: u64 = 1_000;
/// How long anything may take that takes no time.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many restarts
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(4..))]
    restarts: u64,
    /// Build in the profile `release`
    #[arg(long)]
    release: bool,
    /// Where to write the samples, the logs and summary.txt
    #[arg(long, default_value = "target/restarts", value_name = "DIR")]
    output: PathBuf,
}

/// What the process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    restarts: u64,
    memory: u64,
    descriptors: usize,
    threads: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = absolute(&arguments.output)?;
    empty_folder(&folder)?;
    let built = built::build(&PLUGINS, arguments.release, &folder.join("bin"))?;
    write(&folder.join("restarted.yaml"), RESTARTED)?;
    write(&folder.join("load.yaml"), &load_flow())?;
    let flows = ["--api", "127.0.0.1:0", "--drain-timeout", "5", "restarted.yaml", "load.yaml"];
    let mut running = Running::start(&built, &folder, "tremor.log", &flows)?;
    let api = running.api()?;
    let started = Instant::now();
    let mut samples = vec![sample(&mut running, &api, 0)?];
    let every = (arguments.restarts / 100).max(1);
    for number in 1..=arguments.restarts {
        let connector = ["input", "output"][usize::try_from(number % 2)?];
        restart(&mut running, &api, connector, number.div_ceil(2))?;
        if number % every == 0 {
            samples.push(sample(&mut running, &api, number)?);
        }
    }
    let took = started.elapsed().as_secs();
    running.signal("TERM")?;
    let status = running.end(PATIENCE)?;
    ensure!(status.success(), "tremor failed: {status}; see {}", folder.display());
    expect_all(&running.log()?)?;
    let (summary, holds) = judge(&samples, arguments.restarts);
    let profile = if arguments.release { "release" } else { "dev" };
    let summary = format!("profile {profile}, {took} s, load at the end {}\n{summary}", load());
    print(&summary);
    write(&folder.join("samples.csv"), &table(&samples))?;
    write(&folder.join("summary.txt"), &summary)?;
    if !holds {
        bail!("restarts leave something behind: see {}", folder.display());
    }
    Ok(())
}

/// The short form, for every change.
pub(crate) fn check() -> Result<()> {
    run(&Arguments { restarts: 400, release: false, output: "target/restarts".into() })
}

/// Events at an even pace to a file that begins again with each instance.
const RESTARTED: &str = "connectors:
  input: { type: hostile, codec: string, config: { count: 1000000000000, pace_ms: 1 } }
  output:
    type: file
    codec: string
    postprocessors: [lines]
    config: { path: out, mode: truncate }
links: [input -> output]
";

/// As many events as there can be.
fn load_flow() -> String {
    let file = root().join("examples/logs.json");
    format!(
        "connectors:
  source: {{ type: bench, codec: json, config: {{ file: {}, duration_s: 1000000 }} }}
  sink: {{ type: 'null' }}
links: [source -> sink]
",
        file.display()
    )
}

/// Restarts a connector, and waits until it runs again.
fn restart(running: &mut Running, api: &Api, connector: &str, times: u64) -> Result<()> {
    let path = format!("/v1/flows/restarted/connectors/{connector}");
    api.json("POST", &format!("{path}/restart"))?;
    running.until("a connector that runs again", PATIENCE, |_| {
        let it = api.json("GET", &path)?;
        let is_back = it["state"] == "running" && it["restarts"].as_u64() >= Some(times);
        Ok(is_back.then_some(()))
    })
}

/// What the process holds while its flows rest: buffers that are in use are not left over.
fn sample(running: &mut Running, api: &Api, restarts: u64) -> Result<Held> {
    let source = "/v1/flows/load/connectors/source";
    running.until("a flow at full load", PATIENCE, |_| {
        Ok((api.ask("POST", &format!("{source}/pause"))?.0 == 202).then_some(()))
    })?;
    running.until("a flow that rests", PATIENCE, |_| {
        Ok((api.json("GET", source)?["state"] == "paused").then_some(()))
    })?;
    let memory = running.memory()?;
    let (descriptors, threads) = (running.count("fd")?, running.count("task")?);
    api.json("POST", &format!("{source}/resume"))?;
    // So that there is load.
    thread::sleep(Duration::from_millis(1));
    Ok(Held { restarts, memory, descriptors, threads })
}

/// Every event has arrived: the summary says so.
fn expect_all(log: &str) -> Result<()> {
    for flow in ["restarted", "load"] {
        let begin = format!("flow `{flow}`: ");
        let line = log.lines().find(|line| line.starts_with(&begin));
        let line = line.with_context(|| format!("no summary of the flow `{flow}`"))?;
        let is_whole = !line.contains("failed") && line.contains(" 0 dead-lettered");
        ensure!(is_whole, "the flow `{flow}` has lost events: {line}");
    }
    Ok(())
}

/// The median memory of samples, in bytes.
fn median(samples: &[Held]) -> u64 {
    let mut memory: Vec<u64> = samples.iter().map(|it| it.memory).collect();
    memory.sort_unstable();
    memory.get(memory.len() / 2).copied().unwrap_or(0)
}

/// The least of a part of the samples: a connection that is being closed has a descriptor, and is not left over.
fn least(samples: &[Held], of: impl Fn(&Held) -> usize) -> usize {
    samples.iter().map(of).min().unwrap_or(0)
}

/// What is to be said, and whether nothing is left over. Memory is compared between the first and the last of
/// what follows the warm-up, in parts that are long enough for a median; descriptors and threads between the first and
/// the last quarter of all samples.
fn judge(samples: &[Held], restarts: u64) -> (String, bool) {
    let warm: Vec<Held> =
        samples.iter().copied().filter(|it| it.restarts >= restarts / WARM_UP).collect();
    let part = warm.len() / 4;
    let (before, after) = (median(&warm[..part]), median(&warm[warm.len() - part..]));
    let growth = after.saturating_sub(before);
    let is_enough = restarts - restarts / WARM_UP >= LEAST;
    let quarter = samples.len().div_ceil(4);
    let (first, last) = (&samples[..quarter], &samples[samples.len() - quarter..]);
    let [descriptors, threads] = [|it: &Held| it.descriptors, |it: &Held| it.threads]
        .map(|of| (least(first, of), least(last, of)));
    let broken = |holds: bool| if holds { "" } else { "; BROKEN" };
    let kept = [
        !is_enough || growth <= GROWTH,
        descriptors.1 <= descriptors.0,
        // The pool for blocking work keeps what it has.
        threads.1 <= threads.0 + 2,
    ];
    let reserve = if is_enough { "" } else { "; not judged: too few restarts" };
    #[allow(clippy::cast_precision_loss)] // not 2^53 bytes
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let text = format!(
        "  restarts     {restarts} under load\n  memory       {:.2} MiB after the warm-up, {:.2} MiB at the \
         end, {:.2} MiB more, {:.0} allowed{reserve}{}\n  descriptors  {} before, {} after{}\n  threads      \
         {} before, {} after{}\n",
        mebibytes(before),
        mebibytes(after),
        mebibytes(growth),
        mebibytes(GROWTH),
        broken(kept[0]),
        descriptors.0,
        descriptors.1,
        broken(kept[1]),
        threads.0,
        threads.1,
        broken(kept[2]),
    );
    (text, kept.iter().all(|kept| *kept))
}

fn table(samples: &[Held]) -> String {
    let row = |it: &Held| {
        let Held { restarts, memory, descriptors, threads } = it;
        format!("{restarts},{memory},{descriptors},{threads}\n")
    };
    let rows: String = samples.iter().map(row).collect();
    format!("restarts,rss_bytes,descriptors,threads\n{rows}")
}

#[allow(clippy::print_stdout)] // what was asked for
fn print(summary: &str) {
    print!("{summary}");
}

#[cfg(test)]
mod tests {
    use super::{Held, judge};

    fn samples(change: fn(u64, &mut Held)) -> Vec<Held> {
        let sample = |restarts| {
            let mut held = Held { restarts, memory: 30 << 20, descriptors: 12, threads: 9 };
            change(restarts, &mut held);
            held
        };
        (0..=100).map(|it| sample(it * 100)).collect()
    }

    #[test]
    fn each_bound_is_broken_by_what_it_is_for() {
        for (name, change, holds) in [
            ("nothing", (|_, _| {}) as fn(u64, &mut Held), true),
            ("a warm-up", |at, held| held.memory += at.min(2_000) * 10_000, true),
            ("a hundred bytes a restart", |at, held| held.memory += at * 100, true),
            ("a KiB a restart", |at, held| held.memory += at * 1_024, false),
            ("a descriptor", |at, held| held.descriptors += usize::from(at > 5_000), false),
            ("one at times", |at, held| held.descriptors += usize::from(at % 700 == 200), true),
            ("threads", |at, held| held.threads += usize::from(at > 5_000) * 3, false),
        ] {
            let (text, is_kept) = judge(&samples(change), 10_000);
            assert_eq!(is_kept, holds, "{name}: {text}");
        }
    }

    #[test]
    fn memory_of_few_restarts_is_not_judged() {
        let samples = samples(|at, held| held.memory += at * 1_024);
        let few: Vec<Held> =
            samples.into_iter().map(|it| Held { restarts: it.restarts / 20, ..it }).collect();
        let (text, is_kept) = judge(&few, 500);
        assert!(is_kept && text.contains("not judged"), "{text}");
    }
}
