//! What a process held over time, as a picture: memory, descriptors and threads, one below the
//! other.

use std::fmt::Display;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Row, Table};

const SIZE: (u32, u32) = (960, 1_200);
const FONT: &str = "sans-serif";
/// Told apart by those who see few colours, too: after M. Okabe and K. Ito, Color Universal Design.
const COLORS: [RGBColor; 2] = [RGBColor(0, 96, 160), RGBColor(200, 82, 0)];
/// Of lines: the one below shows on both sides of the one above.
const WIDTHS: [u32; 2] = [6, 2];
const GRID: RGBColor = RGBColor(223, 228, 233);

/// A panel's title, and what it shows of a row.
type Panel = (&'static str, fn(&Row) -> f64);

const PANELS: [Panel; 4] = [
    ("allocated memory, MiB", |row| row.allocated_bytes / 1_048_576.0),
    ("resident memory, MiB", |row| row.rss_bytes / 1_048_576.0),
    ("open descriptors", |row| row.descriptors),
    ("threads, those of the pool for blocking work included", |row| row.threads + row.pool_threads),
];

/// The picture, as SVG.
pub(super) fn draw(tables: &[(&str, Table)]) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        for (panel, area) in PANELS.iter().zip(area.split_evenly((PANELS.len(), 1))) {
            draw_panel(&area, panel, tables)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    (title, value): &Panel,
    tables: &[(&str, Table)],
) -> Result<()> {
    let rows = || tables.iter().flat_map(|(_, table)| table);
    let most = |value: &dyn Fn(&Row) -> f64| rows().map(value).fold(0.0, f64::max);
    // From nothing, so that a slope is as steep as it is.
    let (minutes, top) = (most(&minutes), most(value) * 1.1);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 20))
        .margin(10)
        .margin_right(30)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..minutes, 0.0..top)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).bold_line_style(GRID).x_desc("minutes").y_labels(6);
    mesh.label_style((FONT, 15)).axis_desc_style((FONT, 15)).draw().map_err(failed)?;
    for ((name, table), (color, width)) in tables.iter().zip(COLORS.into_iter().zip(WIDTHS)) {
        let points = table.iter().map(|row| (self::minutes(row), value(row)));
        let line = LineSeries::new(points, color.stroke_width(width));
        chart.draw_series(line).map_err(failed)?.label(*name).legend(move |(x, y)| {
            PathElement::new([(x, y), (x + 20, y)], color.stroke_width(width))
        });
    }
    let mut labels = chart.configure_series_labels();
    labels.position(SeriesLabelPosition::LowerRight).label_font((FONT, 15));
    labels.background_style(WHITE).border_style(GRID).draw().map_err(failed)
}

fn minutes(row: &Row) -> f64 {
    row.elapsed_s / 60.0
}

fn failed(error: impl Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

#[cfg(test)]
mod tests {
    use super::{PANELS, Row, draw};

    #[test]
    fn every_panel_has_a_line_for_every_run() {
        let row = |elapsed_s| Row { elapsed_s, rss_bytes: 3e7, descriptors: 9.0, ..Row::default() };
        let table = || vec![row(0.0), row(60.0)];
        let svg = draw(&[("load", table()), ("restart", table())]).expect("a picture");
        for (title, _) in PANELS {
            assert!(svg.contains(title), "{title} is not in:\n{svg}");
        }
        assert_eq!(svg.matches("restart").count(), PANELS.len());
        for color in ["#0060A0", "#C85200"] {
            assert!(svg.matches(color).count() >= PANELS.len(), "{color}");
        }
    }
}
