//! What the process takes, by the names that all clients of Prometheus use.

use std::fs;

use rustix::{
    param::page_size,
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use super::text::{Kind, Text};

/// Writes what is known here: everything on Linux.
pub(super) fn write(text: &mut Text) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "2^53 s are long")]
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
    gauge("process_resident_memory_bytes", "Memory that the process has.", resident);
    gauge("process_virtual_memory_bytes", "Addresses that the process has.", addresses);
    let open = fs::read_dir("/proc/self/fd").map(|entries| entries.count() as u64);
    // One of them was for looking.
    let open = open.ok().map(|count| count.saturating_sub(1));
    gauge("process_open_fds", "File descriptors that are open.", open);
    let most = getrlimit(Resource::Nofile).current;
    gauge("process_max_fds", "File descriptors that may be open.", most);
    gauge("process_start_time_seconds", "When the process began, since the Unix epoch.", start());
}

/// The addresses and the memory of the process, in bytes.
fn memory() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').map_while(|field| field.parse::<u64>().ok());
    let size = page_size() as u64;
    Some((pages.next()? * size, pages.next()? * size))
}

/// When the process began, in seconds since the Unix epoch.
fn start() -> Option<u64> {
    /// Of the kernel towards programs, on every architecture that is supported.
    const TICKS_PER_SECOND: u64 = 100;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in parentheses, may have anything in it. The field is the 22nd.
    let fields = stat.rsplit_once(')')?.1;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<u64>().ok()? + ticks / TICKS_PER_SECOND)
}
