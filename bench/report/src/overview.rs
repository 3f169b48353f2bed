//! A chart of a run with the throughput and latency of each flow.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::format::{three_digits, with_interval};
use crate::statistics::Interval;
use crate::theme::{Area, SMALL, WIDTH, failed, grid, ink, muted, page, picture, series, text};

/// The flows in `bench/flows`, with their descriptions in the chart.
const NAMES: [(&str, &str); 6] = [
    ("passthrough", "bytes in, bytes out"),
    ("passthrough-json", "JSON in, JSON out"),
    ("passthrough-msgpack", "MessagePack in and out"),
    ("passthrough-two-inputs", "JSON from two sources"),
    ("throughput-logging-json", "JSON, classified, limited"),
    ("throughput-logging-msgpack", "MessagePack, classified, limited"),
];
const PERCENTILES: [&str; 3] = ["p50", "p99", "p99.9"];

const TOP: i32 = 72;
const ROW: i32 = 40;
/// Height of the area below the rows, with the numbers of the axes and the source of the figures.
const BOTTOM: i32 = 68;

/// A flow of the chart.
pub(crate) struct FlowFigures {
    pub(crate) name: String,
    /// Geometric mean of events per second over all rounds.
    pub(crate) throughput: Interval,
    /// The 50th, 99th and 99.9th percentile of latency in µs, each as median over all rounds.
    pub(crate) latencies: [f64; 3],
}

/// A horizontal axis that begins at 0.
struct Axis {
    left: i32,
    right: i32,
    step: f64,
    steps: i32,
}

pub(crate) fn overview(flows: &[FlowFigures], source: &str) -> Result<String> {
    let height = TOP + ROW * i32::try_from(flows.len())? + BOTTOM;
    let most = |value: fn(&FlowFigures) -> f64| flows.iter().map(value).fold(0.0, f64::max);
    let throughput = Axis::new(242, 520, most(|flow| flow.throughput.high / 1e6));
    let latency = Axis::new(684, 936, most(|flow| flow.latencies[2]));
    let title = "Throughput and latency of flows through loaded plugins";
    picture(title, u32::try_from(height)?, |area| {
        let corners = [(0, 0), (i32::try_from(WIDTH)?, height)];
        area.draw(&Rectangle::new(corners, page().filled())).map_err(failed)?;
        throughput.draw(area, height - BOTTOM)?;
        latency.draw(area, height - BOTTOM)?;
        write(area, "million events a second", (throughput.left, 26), HPos::Left, ink())?;
        let bars = "mean of all rounds, 95 % confidence interval";
        write(area, bars, (throughput.left, 52), HPos::Left, muted())?;
        write(area, "latency under full load, µs", (latency.left, 26), HPos::Left, ink())?;
        for (index, name) in (0..).zip(PERCENTILES) {
            let left = latency.left + 6 + 60 * i32::try_from(index)?;
            area.draw(&Circle::new((left, 52), 5, series(index).filled())).map_err(failed)?;
            write(area, name, (left + 12, 52), HPos::Left, muted())?;
        }
        write(area, "medians", (latency.right, 52), HPos::Right, muted())?;
        for (index, flow) in (0..).zip(flows) {
            let middle = TOP + ROW * index + ROW / 2;
            let name = NAMES.iter().find(|(name, _)| *name == flow.name);
            let name = name.map_or(flow.name.as_str(), |(_, words)| words);
            write(area, name, (throughput.left - 12, middle), HPos::Right, ink())?;
            draw_throughput(area, &throughput, flow, middle)?;
            draw_latencies(area, &latency, flow, middle)?;
        }
        write(area, source, (16, height - 18), HPos::Left, muted())
    })
}

/// Draws the throughput of a flow as a bar with its confidence interval and figures.
fn draw_throughput(area: &Area<'_>, axis: &Axis, flow: &FlowFigures, middle: i32) -> Result<()> {
    let interval = flow.throughput.scaled(1e-6);
    let [estimate, low, high] =
        [interval.estimate, interval.low, interval.high].map(|value| axis.x(value));
    let bar = Rectangle::new([(axis.left, middle - 9), (estimate, middle + 9)], series(0).filled());
    area.draw(&bar).map_err(failed)?;
    let ends = [low, high].map(|end| [(end, middle - 5), (end, middle + 5)]);
    for line in ends.into_iter().chain([[(low, middle), (high, middle)]]) {
        area.draw(&PathElement::new(line, ink().stroke_width(2))).map_err(failed)?;
    }
    let figures = with_interval(interval, three_digits);
    write(area, &figures, (axis.right + 12, middle), HPos::Left, muted())
}

/// Draws a dot for each percentile with the figure above.
fn draw_latencies(area: &Area<'_>, axis: &Axis, flow: &FlowFigures, middle: i32) -> Result<()> {
    let points = flow.latencies.map(|value| (axis.x(value), middle + 5));
    area.draw(&PathElement::new(points, muted().stroke_width(2))).map_err(failed)?;
    for (index, (point, value)) in points.into_iter().zip(flow.latencies).enumerate() {
        area.draw(&Circle::new(point, 5, series(index).filled())).map_err(failed)?;
        // The first figure is to the left of its dot, because the first two dots may be close to each other.
        let (left, side) =
            if index == 0 { (point.0 + 5, HPos::Right) } else { (point.0, HPos::Center) };
        write(area, &format!("{value:.0}"), (left, middle - 10), side, ink())?;
    }
    Ok(())
}

impl Axis {
    /// Creates an axis with at most seven steps of 1, 2 or 5 times a power of ten.
    fn new(left: i32, right: i32, most: f64) -> Self {
        let power = 10_f64.powf((most / 7.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| most <= 7.0 * step).unwrap_or(most);
        #[allow(clippy::cast_possible_truncation)] // at most seven
        Self { left, right, step, steps: (most / step).ceil() as i32 }
    }

    fn x(&self, value: f64) -> i32 {
        let share = value / (self.step * f64::from(self.steps));
        #[allow(clippy::cast_possible_truncation)] // within the picture
        let offset = (share * f64::from(self.right - self.left)).round() as i32;
        self.left + offset
    }

    fn draw(&self, area: &Area<'_>, bottom: i32) -> Result<()> {
        for step in 0..=self.steps {
            let value = self.step * f64::from(step);
            let x = self.x(value);
            let line = PathElement::new([(x, TOP), (x, bottom)], grid());
            area.draw(&line).map_err(failed)?;
            write(area, &value.to_string(), (x, bottom + 14), HPos::Center, muted())?;
        }
        Ok(())
    }
}

fn write(
    area: &Area<'_>,
    words: &str,
    position: (i32, i32),
    side: HPos,
    color: RGBColor,
) -> Result<()> {
    let style = text(SMALL, color).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(words.to_owned(), position, style)).map_err(failed)
}
