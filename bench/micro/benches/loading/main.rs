//! Cost of loading plugins: only opening a library, as `libloading` does; checking and opening a
//! library, comparing layouts and creating an instance, as the runtime does; and the first calls.
//! The page `docs/benchmarks/loading.md` has the details.
//!
//! ```text
//! cargo bench -p microbench --bench loading [-- [--test] [--round N]]    lines of JSON to stdout
//! ```
//!
//! Each line has the form of `criterion_samples`; a sample is in ns per plugin.
//!
//! Libraries are never unloaded, and the system's loader recognises loaded files. Therefore each
//! measurement runs in its own process, and each plugin has its own file. The files were written
//! just before, so that none has to be read from a disk.

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
/// Samples in ns, by measurement.
type Samples = BTreeMap<String, Vec<f64>>;

/// Pairs of the number of plugins that a process loads, and the number of processes for each way to
/// load them.
const COUNTS: [(usize, usize); 3] = [(1, 20), (10, 10), (100, 3)];

/// Minimum age of a file that the runtime reads only once.
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
                    // Set by cargo.
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

/// Returns the files of the first `count` plugins.
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
    // The runtime reads a recently written file twice, because it might be written again.
    thread::sleep(SETTLED);
    let mut samples = Samples::new();
    for (count, processes) in counts {
        for _ in 0..if test { 1 } else { *processes } {
            // The ways alternate, so that a quiet period of the machine does not favour one of
            // them.
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
