//! `cargo xtask generate-logs`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sample_logs::Generator;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many events, one a line
    #[arg(long)]
    pub(crate) lines: u64,
    /// The same seed gives the same bytes
    #[arg(long)]
    pub(crate) seed: u64,
    /// What a line is
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) format: Format,
    /// The file to write, replaced if it exists; standard output if not given
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
    let Some(path) = &arguments.output else {
        return write(arguments, &mut io::stdout().lock());
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut file =
        File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    write(arguments, &mut file).with_context(|| format!("cannot write {}", path.display()))
}

fn write(arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let mut buffered = BufWriter::new(out);
    match arguments.format {
        Format::Json => sample_logs::write_lines(arguments.lines, arguments.seed, &mut buffered)?,
        Format::MsgpackBase64 => {
            let mut generator = Generator::new(arguments.seed);
            let mut line = Vec::with_capacity(1024);
            for _ in 0..arguments.lines {
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
    use super::*;

    #[test]
    fn messagepack_says_what_json_says() {
        let json = br#"{"z":[true,null,"text"],"a":{"n":20,"x":-1.5}}"#;
        let expected =
            b"\x82\xa1z\x93\xc3\xc0\xa4text\xa1a\x82\xa1n\x14\xa1x\xcb\xbf\xf8\0\0\0\0\0\0";
        assert_eq!(msgpack(json).unwrap(), expected);
    }
}
