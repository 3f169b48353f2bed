//! Latency by percentile, as `HdrHistogram`'s plotter draws it.

use anyhow::Result;
use plotters::prelude::*;

use super::theme::{LEGEND, SMALL, failed, grid, legend, muted, picture, series, text};
use crate::format::three_digits;
use crate::histogram::Histogram;

/// Percentiles with a label: 1/(1 - percentile).
const TICKS: [(f64, &str); 7] = [
    (1.0, "0 %"),
    (10.0, "90 %"),
    (100.0, "99 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
    (1e6, "99.9999 %"),
];

/// The distributions of subjects, each with its place among them and its name. Values are in µs.
pub(crate) fn latency(title: &str, subjects: &[(usize, &str, Histogram)]) -> Result<String> {
    let curves: Vec<_> = subjects
        .iter()
        .map(|(index, name, histogram)| (series(*index), *name, steps(&histogram.curve())))
        .collect();
    let points = || curves.iter().flat_map(|(_, _, points)| points.iter().copied());
    let right = points().map(|point| point.0).fold(10.0, f64::max).min(1e6);
    let low = points().map(|point| point.1).filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.1).fold(low, f64::max);
    let range = if low <= high { low * 0.8..high * 1.25 } else { 1.0..10.0 };
    picture(title, 420, |area| {
        legend(area, curves.iter().map(|(color, name, _)| (*color, *name)))?;
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .margin_top(LEGEND)
            .margin_right(40)
            .x_label_area_size(44)
            .y_label_area_size(80)
            .build_cartesian_2d((1.0..right).log_scale(), range.log_scale())
            .map_err(failed)?;
        let percentile = |x: &f64| {
            let tick = TICKS.iter().find(|tick| (tick.0 - x).abs() < tick.0 * 0.01);
            tick.map_or_else(String::new, |tick| tick.1.to_owned())
        };
        let value = |y: &f64| three_digits(*y);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).bold_line_style(grid()).axis_style(muted());
        mesh.x_labels(7).y_labels(8).x_label_formatter(&percentile).y_label_formatter(&value);
        mesh.x_desc("percentile").y_desc("latency, µs");
        mesh.label_style(text(SMALL, muted())).axis_desc_style(text(SMALL, muted()));
        mesh.draw().map_err(failed)?;
        for (color, _, points) in &curves {
            let inside = points.iter().copied().filter(|point| point.0 <= right && point.1 > 0.0);
            let line = LineSeries::new(inside, color.stroke_width(2));
            chart.draw_series(line).map_err(failed)?;
        }
        Ok(())
    })
}

/// Each value holds up to the next one.
fn steps(curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let corners = curve.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    corners.chain(curve.last().copied()).collect()
}
