//! `cargo xtask generate-logs`: writes generated log events, by default the input of the benchmark's flows.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sample_logs::Generator;

use crate::project::root;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of lines in each file; a line is an event, except in bench/data/containers.log
    #[arg(long, default_value_t = 10_000)]
    lines: u64,
    /// Seed of the generator: the same seed gives the same bytes
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// File of JSON events to write, replaced if it exists. Without this option, all files that the flows in
    /// bench/flows replay are written, in bench/data
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { lines, seed, output } = arguments;
    match output {
        Some(path) => Ok(sample_logs::write_lines(*lines, *seed, &mut create(path)?)?),
        None => write_all(&root().join("bench/data"), *lines, *seed),
    }
}

/// Writes the files that the flows in `bench/flows` replay.
pub(crate) fn write_all(folder: &Path, lines: u64, seed: u64) -> Result<()> {
    sample_logs::write_lines(lines, seed, &mut create(&folder.join("logs.json"))?)?;
    sample_logs::write_access_log(lines, seed, &mut create(&folder.join("nginx.log"))?)?;
    sample_logs::write_container_lines(lines, seed, &mut create(&folder.join("containers.log"))?)?;
    let mut packed = create(&folder.join("logs.msgpack.base64"))?;
    let mut generator = Generator::new(seed);
    for _ in 0..lines {
        let mut line = Vec::new();
        generator.append_line(&mut line);
        writeln!(packed, "{}", STANDARD.encode(msgpack(&line)?))?;
    }
    packed.flush()?;
    eprintln!("wrote {lines} lines to each file in {}", folder.display());
    Ok(())
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(BufWriter::new(file))
}

/// Converts a JSON document to MessagePack with the same keys in the same order, and integers in the shortest form.
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

    /// Returns the file names behind `../data/` in the flows.
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
    fn messagepack_has_the_values_of_json() {
        let json = br#"{"z":[true,null,"text"],"a":{"n":20,"x":-1.5}}"#;
        let expected =
            b"\x82\xa1z\x93\xc3\xc0\xa4text\xa1a\x82\xa1n\x14\xa1x\xcb\xbf\xf8\0\0\0\0\0\0";
        assert_eq!(msgpack(json).unwrap(), expected);
    }
}
