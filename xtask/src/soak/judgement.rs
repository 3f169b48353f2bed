//! Whether a run has left something behind.

use super::Row;
use crate::scenario::Judgement;

/// The part of the cycles, from the first, in which memory may still find its level.
const WARM_UP: f64 = 0.5;
/// Fewer cycles after the warm-up say nothing of memory.
const LEAST_CYCLES: usize = 100;
/// How much what is allocated may grow with each cycle after the warm-up, in bytes: less than four
/// of the smallest blocks that glibc has.
const ALLOCATED: f64 = 128.0;
/// The same of resident memory: coarse, as allocators find their level over some hundred cycles. It
/// is for what no allocator knows of.
const RESIDENT: f64 = 4_096.0;
/// How many threads the pool for blocking work may have: a few pieces of work wait at a time.
const POOL: f64 = 8.0;

/// Adds what the samples of a run show to a judgement.
pub(super) fn add(judgement: &mut Judgement, rows: &[Row]) {
    let first = rows.first().copied().unwrap_or_default();
    let last = rows.last().copied().unwrap_or_default();
    let (cycles, elapsed) = (last.cycle, last.elapsed_s);
    judgement.line(format_args!("  cycles       {cycles} in {elapsed:.0} s"));
    memory(judgement, "allocated", rows, ALLOCATED, |row| row.allocated_bytes);
    memory(judgement, "resident", rows, RESIDENT, |row| row.rss_bytes);
    for (what, before, after) in [
        ("descriptors", first.descriptors, last.descriptors),
        ("threads", first.threads, last.threads),
        ("libraries", first.libraries, last.libraries),
    ] {
        let text = format!("{before} at the start, {after} at the end");
        judgement.add(what, text, after <= before);
    }
    let pool = rows.iter().map(|row| row.pool_threads).fold(0.0, f64::max);
    judgement.add("pool", format!("{pool} threads at most, {POOL} allowed"), pool <= POOL);
}

fn memory(judgement: &mut Judgement, what: &str, rows: &[Row], bound: f64, bytes: fn(&Row) -> f64) {
    let cycles = rows.last().map_or(0.0, |row| row.cycle);
    let warm: Vec<_> = rows
        .iter()
        .filter(|row| row.cycle > cycles * WARM_UP)
        .map(|row| (row.cycle, bytes(row)))
        .collect();
    let growth = slope(&warm);
    let mebibytes = |row: Option<&(f64, f64)>| row.map_or(0.0, |row| row.1 / f64::from(1 << 20));
    let (from, to) = (mebibytes(warm.first()), mebibytes(warm.last()));
    let is_enough = warm.len() >= LEAST_CYCLES;
    let reserve = if is_enough {
        String::new()
    } else {
        format!("; not judged: {} cycles, {LEAST_CYCLES} are needed", warm.len())
    };
    let text = format!(
        "{from:.2} MiB after the warm-up, {to:.2} MiB at the end, {growth:.0} bytes a cycle, {bound} allowed{reserve}"
    );
    judgement.add(what, text, !is_enough || growth <= bound);
}

/// Of bytes over cycles, in bytes a cycle: a line with the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    #[allow(clippy::cast_precision_loss)] // not 2^53 rows
    let count = points.len() as f64;
    let cycle = points.iter().map(|point| point.0).sum::<f64>() / count;
    let bytes = points.iter().map(|point| point.1).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|point| (point.0 - cycle).powi(2)).sum();
    let product: f64 = points.iter().map(|point| (point.0 - cycle) * (point.1 - bytes)).sum();
    if spread > 0.0 { product / spread } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{Judgement, Row, add};

    /// Rows of so many cycles, each made by `change` from one that holds the same all the time.
    fn judged(cycles: u32, change: fn(f64, &mut Row)) -> Judgement {
        let rows = (0..=cycles).map(f64::from).map(|cycle| {
            let mut row = Row { cycle, rss_bytes: 3e7, descriptors: 9.0, ..Row::default() };
            change(cycle, &mut row);
            row
        });
        let mut judgement = Judgement::default();
        add(&mut judgement, &rows.collect::<Vec<_>>());
        judgement
    }

    #[test]
    fn each_bound_is_broken_by_what_it_is_for() {
        for (name, change, expected) in [
            ("nothing", (|_, _| {}) as fn(f64, &mut Row), 0),
            ("half a KiB a cycle", |cycle, row| row.rss_bytes += cycle * 512.0, 0),
            ("8 KiB a cycle", |cycle, row| row.rss_bytes += cycle * 8_192.0, 1),
            ("a word a cycle", |cycle, row| row.allocated_bytes += cycle * 8.0, 0),
            ("ten blocks a cycle", |cycle, row| row.allocated_bytes += cycle * 320.0, 1),
            ("a warm-up", |cycle, row| row.rss_bytes += cycle.min(100.0) * 1e5, 0),
            ("a descriptor", |cycle, row| row.descriptors += f64::from(cycle > 300.0), 1),
            (
                "a descriptor for a while",
                |cycle, row| {
                    row.descriptors += f64::from((299.5..300.5).contains(&cycle));
                },
                0,
            ),
            ("a thread a cycle", |cycle, row| row.threads += cycle, 1),
            ("a library", |cycle, row| row.libraries += f64::from(cycle > 0.0), 1),
            ("a pool of nine", |cycle, row| row.pool_threads = 9.0_f64.min(cycle), 1),
        ] {
            assert_eq!(judged(400, change).broken, expected, "{name}");
        }
    }

    #[test]
    fn memory_of_few_cycles_is_not_judged() {
        let judgement = judged(100, |cycle, row| row.rss_bytes += cycle * 1e6);
        assert_eq!(judgement.broken, 0);
        assert!(judgement.text.contains("not judged: 50 cycles"), "{}", judgement.text);
    }
}
