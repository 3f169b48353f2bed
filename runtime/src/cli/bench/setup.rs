//! Conditions of a benchmark other than the libraries: machine, build, data and command.

use std::{env, fmt, fs, path::Path, thread};

use rustix::system::uname;
use serde::Serialize;
use tremor_runtime::{executor, flow::Flow, redact};
use twox_hash::XxHash3_128;

use super::overrides::{self, Rate};

/// Conditions of a benchmark, as they appear in the report.
#[derive(Serialize)]
pub(super) struct Setup {
    machine: Machine,
    build: Build,
    data: Vec<Data>,
    /// Events per second that all sources together offered.
    rate: Rate,
    /// Command line, beginning with the program.
    command: Vec<String>,
}

#[derive(Serialize)]
struct Machine {
    /// Name of the processor; `None` if the system does not report it.
    cpu: Option<String>,
    /// Instruction sets of this processor that codecs, searches and checksums use if they detect them at run time.
    cpu_features: Vec<&'static str>,
    kernel: String,
    /// Number of threads that can run at the same time: processors, reduced by affinity and quotas.
    processors: usize,
    /// Threads of the executor. Threads for blocking work and timers are not included.
    threads: usize,
}

#[derive(Serialize)]
struct Build {
    version: &'static str,
    rustc: &'static str,
    target: &'static str,
    /// `release` or a profile that inherits from it, or `debug`.
    profile: &'static str,
    opt_level: &'static str,
    rustflags: &'static str,
    allocator: String,
}

/// File that sources replayed.
#[derive(Serialize)]
struct Data {
    path: String,
    /// Size of the file on disk, before it is decompressed.
    bytes: u64,
    /// Hash of the file, XXH3 with 128 bits as for libraries; `None` if the file was deleted since.
    hash: Option<String>,
}

impl Setup {
    /// Returns the conditions of a flow. Call this after the values of the command line were set.
    pub(super) fn of(flow: &Flow) -> Self {
        Self {
            machine: Machine::this(),
            build: Build::this(),
            data: overrides::files(flow).iter().map(|path| Data::of(path)).collect(),
            rate: overrides::rate(flow),
            command: env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        }
    }
}

impl Machine {
    fn this() -> Self {
        let name = uname();
        let parts = [name.sysname(), name.release(), name.machine()];
        Self {
            cpu: cpu_model(),
            cpu_features: cpu_features(),
            kernel: parts.map(|part| part.to_string_lossy().into_owned()).join(" "),
            processors: thread::available_parallelism().map_or(1, usize::from),
            threads: executor::processors(),
        }
    }
}

/// Returns the model of the first processor, from <https://man7.org/linux/man-pages/man5/proc_cpuinfo.5.html>.
fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let value = |key: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(found, _)| found.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    // Arm processors report numbers instead of a name.
    let arm = || Some(format!("Arm {} {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").or_else(arm)
}

fn cpu_features() -> Vec<&'static str> {
    macro_rules! detected {
        ($detected:ident: $($feature:tt)*) => {
            [$(($feature, std::arch::$detected!($feature))),*]
        };
    }
    #[cfg(target_arch = "x86_64")]
    let features = detected!(
        is_x86_feature_detected: "sse2" "ssse3" "sse4.2" "pclmulqdq" "avx" "avx2" "bmi1" "bmi2"
            "avx512f" "avx512bw" "avx512vl" "vpclmulqdq"
    );
    #[cfg(target_arch = "aarch64")]
    let features = detected!(is_aarch64_feature_detected: "neon" "crc" "aes" "sha2" "sve");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let features: [(&str, bool); 0] = [];
    features.into_iter().filter_map(|(name, has)| has.then_some(name)).collect()
}

impl Build {
    fn this() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            rustc: env!("TREMOR_BUILD_RUSTC"),
            target: env!("TREMOR_BUILD_TARGET"),
            profile: env!("TREMOR_BUILD_PROFILE"),
            opt_level: env!("TREMOR_BUILD_OPT"),
            rustflags: env!("TREMOR_BUILD_RUSTFLAGS"),
            allocator: allocator(env::var("LD_PRELOAD").ok().as_deref()),
        }
    }
}

/// Returns the name of the allocator. The program contains no allocator, so it uses that of the C library, unless
/// another one was preloaded.
fn allocator(preloaded: Option<&str>) -> String {
    match preloaded.filter(|libraries| !libraries.is_empty()) {
        Some(libraries) => format!("system, behind LD_PRELOAD={libraries}"),
        None => "system".to_owned(),
    }
}

impl Data {
    fn of(path: &Path) -> Self {
        // If the file was deleted during the run, the report shows that its hash is unknown.
        let (bytes, hash) = fs::read(path).map_or((0, None), |bytes| {
            (bytes.len() as u64, Some(format!("{:032x}", XxHash3_128::oneshot(&bytes))))
        });
        // The path may come from a reference, so secrets are redacted.
        let path = redact::text(&path.to_string_lossy()).into_owned();
        Self { path, bytes, hash }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, build, data, rate, command } = self;
        let Machine { cpu, cpu_features, kernel, processors, threads } = machine;
        match rate {
            Rate::Events(rate) => writeln!(f, "offered     {rate} events/s")?,
            Rate::Redacted(rate) => writeln!(f, "offered     {rate} events/s")?,
            Rate::Unlimited => writeln!(f, "offered     as many as the flow accepts")?,
        }
        let cpu = cpu.as_deref().unwrap_or("an unknown processor");
        writeln!(f, "machine     {cpu}, {processors} processors, {threads} threads, {kernel}")?;
        writeln!(f, "features    {}", cpu_features.join(" "))?;
        let Build { version, rustc, target, profile, opt_level, rustflags, allocator } = build;
        let flags =
            if rustflags.is_empty() { String::new() } else { format!(", flags {rustflags}") };
        writeln!(
            f,
            "build       tremor {version}, {rustc}, {target}, {profile}, opt-level {opt_level}{flags}"
        )?;
        writeln!(f, "allocator   {allocator}")?;
        for Data { path, bytes, hash } in data {
            let hash = hash.as_deref().unwrap_or("gone");
            writeln!(f, "data        {path}, {bytes} bytes {hash}")?;
        }
        writeln!(f, "command     {}", command.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::allocator;

    #[test]
    fn preloaded_allocator_is_reported() {
        for (preloaded, expected) in [
            (None, "system"),
            (Some(""), "system"),
            (Some("libjemalloc.so"), "system, behind LD_PRELOAD=libjemalloc.so"),
        ] {
            assert_eq!(allocator(preloaded), expected);
        }
    }
}
