//! Throughput from round to round: whether the machine was the same all the time.

use anyhow::Result;
use plotters::prelude::*;

use super::theme::{LEGEND, SMALL, failed, grid, legend, muted, picture, series, text};
use crate::analysis::Flow;
use crate::format::whole;

pub(crate) fn rounds(title: &str, flow: &Flow<'_>) -> Result<String> {
    let all = || flow.subjects.iter().flat_map(|subject| subject.throughputs.iter().copied());
    let last = all().map(|(round, _)| round).max().unwrap_or(1);
    let low = all().map(|(_, value)| value).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, value)| value).fold(0.0, f64::max);
    let range = if low <= high { low * 0.99..high * 1.01 } else { 0.0..1.0 };
    picture(title, 320, |area| {
        let names = flow.subjects.iter().map(|subject| subject.name);
        legend(area, names.enumerate().map(|(index, name)| (series(index), name)))?;
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .margin_top(LEGEND)
            .x_label_area_size(44)
            .y_label_area_size(90)
            .build_cartesian_2d(0.5..f64::from(last) + 0.5, range)
            .map_err(failed)?;
        let round = |x: &f64| if x.fract() == 0.0 { format!("{x:.0}") } else { String::new() };
        let events = |y: &f64| whole(*y);
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().light_line_style(TRANSPARENT).bold_line_style(grid());
        mesh.axis_style(muted()).y_labels(6).x_labels(21);
        mesh.x_label_formatter(&round).y_label_formatter(&events).x_desc("round");
        mesh.label_style(text(SMALL, muted())).axis_desc_style(text(SMALL, muted()));
        mesh.draw().map_err(failed)?;
        for (index, subject) in flow.subjects.iter().enumerate() {
            let color = series(index);
            let points =
                subject.throughputs.iter().map(|(round, value)| (f64::from(*round), *value));
            let line = LineSeries::new(points, color.stroke_width(2)).point_size(3);
            chart.draw_series(line).map_err(failed)?;
        }
        Ok(())
    })
}
