//! Metrics of the process, with the names that all Prometheus clients use.

use std::fs;

use rustix::{
    param::page_size,
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use super::text::{Kind, Text};

/// Writes the process metrics that this operating system provides. Linux provides all of them.
pub(super) fn write(text: &mut Text) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "the time is far below 2^53 s")]
    let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let name = "process_cpu_seconds_total";
    text.family(name, Kind::Counter, "Processor time of the process.");
    text.sample(name, &[], cpu);
    let mut gauge = |name, help, value: Option<u64>| {
        if let Some(value) = value {
            text.family(name, Kind::Gauge, help);
            text.sample(name, &[], value);
        }
    };
    let (addresses, resident) = memory().unzip();
    gauge("process_resident_memory_bytes", "Resident memory of the process.", resident);
    gauge("process_virtual_memory_bytes", "Virtual memory of the process.", addresses);
    let open = fs::read_dir("/proc/self/fd").map(|entries| entries.count() as u64);
    // The folder itself was open while it was read, so one descriptor is subtracted.
    let open = open.ok().map(|count| count.saturating_sub(1));
    gauge("process_open_fds", "Open file descriptors.", open);
    let most = getrlimit(Resource::Nofile).current;
    gauge("process_max_fds", "Limit of open file descriptors.", most);
    gauge(
        "process_start_time_seconds",
        "Start time of the process, in seconds since the Unix epoch.",
        start(),
    );
}

/// Returns the virtual and the resident memory of the process, in bytes.
fn memory() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').map_while(|field| field.parse::<u64>().ok());
    let size = page_size() as u64;
    Some((pages.next()? * size, pages.next()? * size))
}

/// Returns the start time of the process, in seconds since the Unix epoch.
fn start() -> Option<u64> {
    /// Clock ticks per second. On every supported architecture, the kernel reports times to programs in ticks of this
    /// length.
    const TICKS_PER_SECOND: u64 = 100;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the process in parentheses may contain any character, so fields are counted from the closing
    // parenthesis. The start time is field 22.
    let fields = stat.rsplit_once(')')?.1;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<u64>().ok()? + ticks / TICKS_PER_SECOND)
}
