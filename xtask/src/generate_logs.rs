//! `cargo xtask generate-logs`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many events, one a line
    #[arg(long)]
    lines: u64,
    /// The same seed gives the same bytes
    #[arg(long)]
    seed: u64,
    /// The file to write, replaced if it exists; standard output if not given
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Some(path) = &arguments.output else {
        return write(arguments, &mut io::stdout().lock());
    };
    let mut file =
        File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    write(arguments, &mut file).with_context(|| format!("cannot write {}", path.display()))
}

fn write(arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let mut buffered = BufWriter::new(out);
    sample_logs::write_lines(arguments.lines, arguments.seed, &mut buffered)?;
    Ok(buffered.flush()?)
}
