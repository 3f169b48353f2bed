//! What it costs to load plugins: to open a library and nothing else, as `libloading` does, and to
//! check it, open it, compare its layouts and make an instance, as the runtime does; and what the
//! first calls into it cost. The page `docs/benchmarks/loading.md` says more.
//!
//! ```text
//! cargo bench -p microbench --bench loading [-- [--test] [--round N]]    lines of JSON to stdout
//! ```
//!
//! Each line has the form of `criterion_samples`; a sample is in ns a plugin.
//!
//! Nothing is ever unloaded, and the system's loader knows what it has loaded by its file. So each
//! measurement is a process of its own, and each plugin in it a file of its own. The files were
//! written just before, so that none of them has to come from a disk.

mod child;

#[path = "../boundary/calls.rs"]
#[allow(dead_code)]
mod calls;
#[path = "../../../boundary-plugin/src/echo.rs"]
#[allow(dead_code, unreachable_pub)]
mod echo;
#[path = "../../../../runtime/src/plugin/layout/identical.rs"]
mod identical;
#[path = "../boundary/library.rs"]
#[allow(dead_code)]
mod library;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;
/// Samples in ns, by what was measured.
type Samples = BTreeMap<String, Vec<f64>>;

/// How many plugins a process loads, and how many processes do so in each way.
const COUNTS: [(usize, usize); 3] = [(1, 20), (10, 10), (100, 3)];

/// After that long, a file of this age is read once.
const SETTLED: Duration = Duration::from_secs(3);

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["child", way, count, folder] => {
            let samples = child::run(way, &files(Path::new(folder), count.parse()?))?;
            Ok(writeln!(stdout().lock(), "{}", serde_json::to_string(&samples)?)?)
        }
        options => {
            let mut round = 1;
            let mut test = false;
            let mut options = options.iter();
            while let Some(option) = options.next() {
                match *option {
                    "--test" => test = true,
                    "--round" => round = options.next().ok_or("--round needs a number")?.parse()?,
                    // Cargo's own.
                    "--bench" => {}
                    other => {
                        return Err(format!("expected --test or --round N, not {other}").into());
                    }
                }
            }
            measure(round, test)
        }
    }
}

/// The files of the first so many plugins.
fn files(folder: &Path, count: usize) -> Vec<PathBuf> {
    let file = |number| folder.join(format!("{number}{}", env::consts::DLL_SUFFIX));
    (0..count).map(file).collect()
}

fn measure(round: u32, test: bool) -> Result<()> {
    let built = library::unwinding();
    let folder = tempfile::tempdir()?;
    let counts = if test { &COUNTS[..2] } else { &COUNTS[..] };
    let most = counts.iter().map(|(count, _)| *count).max().unwrap_or_default();
    for file in files(folder.path(), most) {
        fs::copy(&built, file)?;
    }
    // A file that was written just now is read twice, since it might be written again.
    thread::sleep(SETTLED);
    let mut samples = Samples::new();
    for (count, processes) in counts {
        for _ in 0..if test { 1 } else { *processes } {
            // In turn, so that none has a quiet minute of the machine to itself.
            for way in child::WAYS {
                for (id, ns) in start(way, *count, folder.path())? {
                    samples.entry(id).or_default().extend(ns);
                }
            }
        }
    }
    let mut out = stdout().lock();
    for (id, ns) in samples {
        let line = json!({ "experiment": "loading", "round": round, "id": id, "ns": ns });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn start(way: &str, count: usize, folder: &Path) -> Result<Samples> {
    let mut child = Command::new(env::current_exe()?);
    child.args(["child", way, &count.to_string()]).arg(folder).stderr(Stdio::inherit());
    let output = child.output()?;
    if !output.status.success() {
        return Err(format!("the process that loads {count} plugins failed: {way}").into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
