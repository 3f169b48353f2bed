//! Throughput of the subjects on a flow: every round, the mean, and how sure it is.

use anyhow::Result;

use super::dots::{Dots, Row, draw};
use super::theme::series;
use crate::analysis::Flow;
use crate::format::whole;

pub(crate) fn throughput(title: &str, flow: &Flow<'_>) -> Result<String> {
    let rows = flow.subjects.iter().enumerate().map(|(index, subject)| Row::Values {
        label: subject.name,
        color: series(index),
        interval: subject.throughput,
        samples: subject.throughputs.iter().map(|(_, value)| *value).collect(),
        band: None,
    });
    draw(&Dots {
        title,
        unit: "events per second",
        rows: rows.collect(),
        mark: None,
        format: whole,
    })
}
