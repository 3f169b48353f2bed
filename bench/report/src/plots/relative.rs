//! Throughput relative to the baseline, all flows in one picture.

use anyhow::Result;

use super::dots::{Dots, Row, draw};
use super::theme::series;
use crate::analysis::{Flow, Verdict};

pub(crate) fn relative(title: &str, flows: &[Flow<'_>]) -> Result<String> {
    let mut rows = Vec::new();
    for flow in flows {
        rows.push(Row::Heading(flow.name));
        let band = flow.floor.map(|floor| (100.0 * (1.0 - floor), 100.0 * (1.0 + floor)));
        for (index, subject) in flow.subjects.iter().enumerate() {
            if subject.verdict != Verdict::Baseline {
                rows.push(Row::Values {
                    label: subject.name,
                    color: series(index),
                    interval: subject.ratio.map(|ratio| ratio.scaled(100.0)),
                    samples: Vec::new(),
                    band,
                });
            }
        }
    }
    let format = |x: f64| format!("{x:.1}").trim_end_matches(".0").to_owned();
    draw(&Dots { title, unit: "per cent of the baseline", rows, mark: Some(100.0), format })
}
