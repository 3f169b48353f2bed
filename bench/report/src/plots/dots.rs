//! Rows of dots with error bars along one horizontal axis.

use anyhow::Result;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::theme::{Area, LARGE, SMALL, failed, grid, ink, muted, picture, text};
use crate::statistics::Interval;

const ROW: u32 = 28;
const LABELS: u32 = 220;
const AXIS: u32 = 50;
const TOP: u32 = 10;

/// What the picture shows.
pub(super) struct Dots<'a> {
    pub(super) title: &'a str,
    /// Below the axis.
    pub(super) unit: &'a str,
    pub(super) rows: Vec<Row<'a>>,
    /// A vertical line here.
    pub(super) mark: Option<f64>,
    pub(super) format: fn(f64) -> String,
}

pub(super) enum Row<'a> {
    Heading(&'a str),
    Values {
        label: &'a str,
        color: RGBColor,
        /// The dot, and the bar around it.
        interval: Option<Interval>,
        /// Small dots behind.
        samples: Vec<f64>,
        /// A tinted range behind.
        band: Option<(f64, f64)>,
    },
}

type Axes = Cartesian2d<RangedCoordf64, RangedCoordf64>;

pub(super) fn draw(dots: &Dots<'_>) -> Result<String> {
    let count = u32::try_from(dots.rows.len())?;
    picture(dots.title, TOP + ROW * count + AXIS, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP)
            .margin_right(24)
            .x_label_area_size(AXIS)
            .y_label_area_size(LABELS)
            .build_cartesian_2d(dots.range(), f64::from(count)..0.0)
            .map_err(failed)?;
        let label = |x: &f64| (dots.format)(*x);
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh()
            .disable_y_axis()
            .y_labels(0)
            .x_labels(8)
            .light_line_style(TRANSPARENT);
        mesh.bold_line_style(grid()).axis_style(muted()).x_label_formatter(&label);
        mesh.x_desc(dots.unit)
            .x_label_style(text(SMALL, muted()))
            .axis_desc_style(text(SMALL, muted()));
        mesh.draw().map_err(failed)?;
        if let Some(mark) = dots.mark {
            let line = PathElement::new([(mark, 0.0), (mark, f64::from(count))], ink());
            chart.draw_series([line]).map_err(failed)?;
        }
        let plot = chart.plotting_area();
        for (index, row) in (0..).zip(&dots.rows) {
            draw_row(area, plot, index, row)?;
        }
        Ok(())
    })
}

fn draw_row(
    area: &Area<'_>,
    plot: &DrawingArea<SVGBackend<'_>, Axes>,
    index: u32,
    row: &Row<'_>,
) -> Result<()> {
    let middle = f64::from(index) + 0.5;
    let baseline = i32::try_from(TOP + ROW * index + ROW / 2 - 8)?;
    match row {
        Row::Heading(name) => {
            let style = ("sans-serif", LARGE, FontStyle::Bold).into_font().color(&ink());
            area.draw(&Text::new((*name).to_owned(), (8, baseline), style)).map_err(failed)
        }
        Row::Values { label, color, interval, samples, band } => {
            let style = text(SMALL, muted());
            area.draw(&Text::new((*label).to_owned(), (22, baseline), style)).map_err(failed)?;
            if let Some((low, high)) = band {
                let corners = [(*low, middle - 0.5), (*high, middle + 0.5)];
                plot.draw(&Rectangle::new(corners, muted().mix(0.16).filled())).map_err(failed)?;
            }
            for (place, sample) in (0..).zip(samples) {
                // From above to below in the order of rounds: drift shows as a slope.
                let share = f64::from(place) / f64::from(u32::try_from(samples.len())?);
                let dot =
                    Circle::new((*sample, middle - 0.3 + 0.6 * share), 3, color.mix(0.5).filled());
                plot.draw(&dot).map_err(failed)?;
            }
            let Some(Interval { estimate, low, high }) = *interval else { return Ok(()) };
            if high.is_finite() {
                let bar = PathElement::new([(low, middle), (high, middle)], color.stroke_width(2));
                plot.draw(&bar).map_err(failed)?;
                for end in [low, high] {
                    let tick = [(end, middle - 0.22), (end, middle + 0.22)];
                    plot.draw(&PathElement::new(tick, color.stroke_width(2))).map_err(failed)?;
                }
            }
            plot.draw(&Circle::new((estimate, middle), 5, color.filled())).map_err(failed)
        }
    }
}

impl Dots<'_> {
    /// All values, with some room beside them.
    fn range(&self) -> std::ops::Range<f64> {
        let values = self.rows.iter().flat_map(|row| match row {
            Row::Heading(_) => Vec::new(),
            Row::Values { interval, samples, band, .. } => {
                let ends = interval.iter().flat_map(|i| [i.estimate, i.low, i.high]);
                ends.chain(samples.iter().copied())
                    .chain(band.iter().flat_map(|b| [b.0, b.1]))
                    .collect()
            }
        });
        let values: Vec<f64> =
            values.chain(self.mark).filter(|value| value.is_finite() && *value > 0.0).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        if low > high {
            return 0.0..1.0;
        }
        let room = ((high - low) * 0.06).max(high * 0.002);
        low - room..high + room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(samples: Vec<f64>) -> Row<'static> {
        Row::Values { label: "a", color: ink(), interval: None, samples, band: None }
    }

    #[test]
    fn the_axis_holds_all_values_and_survives_none() {
        let dots = |rows, mark| Dots { title: "", unit: "", rows, mark, format: |_| String::new() };
        let range = dots(vec![row(vec![90.0, 110.0])], Some(100.0)).range();
        assert!(range.start < 90.0 && range.end > 110.0);
        assert_eq!(dots(vec![row(vec![])], None).range(), 0.0..1.0);
        let range = dots(vec![row(vec![5.0, 5.0])], None).range();
        assert!(range.start < range.end);
    }
}
