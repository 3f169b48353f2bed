//! The samples of one run, as `bench/soak` writes them.

use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};

const COLUMNS: &str =
    "cycle,elapsed_s,allocated_bytes,rss_bytes,descriptors,threads,libraries,pool_threads";

/// The first row is from after the cycle that loads what stays loaded, the last from when everything
/// has settled.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) cycle: f64,
    pub(super) elapsed_s: f64,
    pub(super) allocated_bytes: f64,
    pub(super) rss_bytes: f64,
    pub(super) descriptors: f64,
    pub(super) threads: f64,
    pub(super) libraries: f64,
    pub(super) pool_threads: f64,
}

impl FromStr for Table {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        ensure!(head == COLUMNS, "the columns are `{head}`, not `{COLUMNS}`");
        let row = |(number, line)| row(line).with_context(|| format!("line {number}: `{line}`"));
        let rows: Vec<_> = (2..).zip(lines).map(row).collect::<Result<_>>()?;
        ensure!(rows.len() > 1, "there is no cycle");
        Ok(Self { rows })
    }
}

fn row(line: &str) -> Result<Row> {
    let values: Vec<f64> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let [
        cycle,
        elapsed_s,
        allocated_bytes,
        rss_bytes,
        descriptors,
        threads,
        libraries,
        pool_threads,
    ] = values[..]
    else {
        anyhow::bail!("{} values, not 8", values.len());
    };
    Ok(Row {
        cycle,
        elapsed_s,
        allocated_bytes,
        rss_bytes,
        descriptors,
        threads,
        libraries,
        pool_threads,
    })
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Table};

    #[test]
    fn what_is_no_table_says_in_which_line() {
        for (rows, expected) in [
            ("0,0.0,9,1,2,3,4,5\n1,0.1,9,1,2,3,4,5\n", None),
            ("0,0.0,9,1,2,3,4,5\n", Some("there is no cycle")),
            ("0,0.0,9,1,2,3,4,5\n1,0.1,1\n", Some("line 3: `1,0.1,1`: 3 values, not 8")),
            (
                "0,0.0,9,many,2,3,4,5\n",
                Some("line 2: `0,0.0,9,many,2,3,4,5`: invalid float literal"),
            ),
        ] {
            let error = format!("{COLUMNS}\n{rows}").parse::<Table>().err();
            let error = error.map(|error| format!("{error:#}"));
            assert_eq!(error.as_deref(), expected);
        }
        assert!("cycle\n".parse::<Table>().is_err());
    }
}
