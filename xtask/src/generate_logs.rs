//! `cargo xtask generate-logs`: generated log events, without options those of the benchmark's flows.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sample_logs::Generator;

use crate::project::root;

/// The files that the flows in `bench/flows` replay.
const FILES: [(&str, Format); 2] =
    [("logs.json", Format::Json), ("logs.msgpack.base64", Format::MsgpackBase64)];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of events, one a line
    #[arg(long, default_value_t = 10_000)]
    pub(crate) lines: u64,
    /// Seed of the generator: the same seed gives the same bytes
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Encoding of a line in FILE
    #[arg(long, value_enum, default_value = "json", requires = "output")]
    pub(crate) format: Format,
    /// File to write, replaced if it exists. Without this option, all files that the flows in
    /// bench/flows replay are written, in bench/data
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Format {
    /// An event as JSON
    Json,
    /// The same event as MessagePack, and that as base64
    MsgpackBase64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let &Arguments { lines, seed, format, ref output } = arguments;
    match output {
        Some(path) => write_file(path, lines, seed, format),
        None => write_all(&root().join("bench/data"), lines, seed),
    }
}

fn write_all(folder: &Path, lines: u64, seed: u64) -> Result<()> {
    for (name, format) in FILES {
        let path = folder.join(name);
        write_file(&path, lines, seed, format)?;
        eprintln!("wrote {lines} events to {}", path.display());
    }
    Ok(())
}

fn write_file(path: &Path, lines: u64, seed: u64, format: Format) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    write(file, lines, seed, format).with_context(|| format!("cannot write {}", path.display()))
}

fn write(file: File, lines: u64, seed: u64, format: Format) -> Result<()> {
    let mut buffered = BufWriter::new(file);
    match format {
        Format::Json => sample_logs::write_lines(lines, seed, &mut buffered)?,
        Format::MsgpackBase64 => {
            let mut generator = Generator::new(seed);
            let mut line = Vec::with_capacity(1024);
            for _ in 0..lines {
                line.clear();
                generator.append_line(&mut line);
                writeln!(buffered, "{}", STANDARD.encode(msgpack(&line)?))?;
            }
        }
    }
    Ok(buffered.flush()?)
}

/// The MessagePack of a JSON document: the same keys in the same order, integers in the fewest bytes.
fn msgpack(json: &[u8]) -> Result<Vec<u8>> {
    let value: rmpv::Value = serde_json::from_slice(json)?;
    let mut bytes = Vec::with_capacity(json.len());
    rmpv::encode::write_value(&mut bytes, &value)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// The names behind `../data/` in the flows.
    fn replayed() -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(root().join("bench/flows")).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            let after = text.split("../data/").skip(1);
            names.extend(after.map(|rest| rest[..rest.find([',', ' ']).unwrap()].to_owned()));
        }
        names
    }

    #[test]
    fn defaults_write_every_file_that_a_flow_replays() {
        let Arguments { lines, seed, output, .. } = Line::parse_from(["x"]).arguments;
        assert_eq!((lines, seed, output), (10_000, 42, None));
        let folder = std::env::temp_dir().join(format!("xtask-logs-{}", std::process::id()));
        write_all(&folder, 3, seed).unwrap();
        let written = fs::read_dir(&folder).unwrap().map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert_eq!(
                fs::read_to_string(folder.join(&name)).unwrap().lines().count(),
                3,
                "{name}"
            );
            name
        });
        assert_eq!(written.collect::<BTreeSet<_>>(), replayed());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_format_without_a_file_is_rejected() {
        assert!(Line::try_parse_from(["x", "--format", "json"]).is_err());
    }

    #[test]
    fn messagepack_says_what_json_says() {
        let json = br#"{"z":[true,null,"text"],"a":{"n":20,"x":-1.5}}"#;
        let expected =
            b"\x82\xa1z\x93\xc3\xc0\xa4text\xa1a\x82\xa1n\x14\xa1x\xcb\xbf\xf8\0\0\0\0\0\0";
        assert_eq!(msgpack(json).unwrap(), expected);
    }
}
