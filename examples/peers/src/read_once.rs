//! A transactional source that reads the lines of a file. Each run continues after the last line that an earlier run
//! has delivered.

use std::{
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tremor_pdk::{
    Acks, Begin, InFlight, StateFile, StateFileNames, Watermarks, prelude::*, units::Size,
};

/// Configuration of the source in the flow file.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// File to read.
    path: PathBuf,
    /// File with the position up to which lines are acknowledged.
    checkpoint: PathBuf,
    /// Maximum number of bytes in flight. Operators such as `window` need at least the bytes that they buffer.
    #[serde(default = "default_max_in_flight")]
    max_in_flight: Size,
}

const fn default_max_in_flight() -> Size {
    Size::of_bytes(64 << 20)
}

/// Reads the lines of a file.
pub struct ReadOnce {
    config: Config,
    context: ComponentContext,
    /// The checkpoint; `None` before the first pull has opened it.
    checkpoint: Option<Checkpoint>,
    /// Position of the next line, in bytes; `None` for the position where the run began.
    position: Option<u64>,
    /// Positions of the lines in flight, and the position up to which all lines are acknowledged.
    marks: Watermarks<u64>,
    /// Time of the next commit, by the monotonic clock of the host.
    commit_at_ns: u64,
}

/// The file with the position up to which lines are acknowledged. No other source can use it.
#[derive(Clone)]
struct Checkpoint {
    file: Arc<StateFile>,
    /// Position where the run began.
    start: u64,
}

/// Number of the only stream: the file.
const FILE: u64 = 0;

impl Component for ReadOnce {
    const NAME: &str = "read_once";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let config = Config {
            path: context.resolve(config.path),
            checkpoint: context.resolve(config.checkpoint),
            ..config
        };
        // The limit is necessary because lines stay in memory until they are delivered.
        let most = InFlight {
            bytes: config.max_in_flight.in_memory(),
            key: "max_in_flight",
            ..InFlight::UNLIMITED
        };
        let marks = Watermarks::new().at_most(most);
        Ok(Self { config, context, checkpoint: None, position: None, marks, commit_at_ns: 0 })
    }
}

impl Source for ReadOnce {
    type Batch = RawBatch;

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        Some(Box::new(self.marks.clone()))
    }

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        if self.context.monotonic_ns() >= self.commit_at_ns {
            self.commit().await?;
            self.commit_at_ns = self.context.monotonic_ns() + 1_000_000_000;
        }
        let (config, checkpoint) = (self.config.clone(), self.checkpoint.clone());
        let (position, most) = (self.position, batch.limit().events);
        let read = self.context.blocking(move || {
            let checkpoint = checkpoint.map_or_else(|| Checkpoint::open(&config.checkpoint), Ok)?;
            let position = position.unwrap_or(checkpoint.start);
            lines(&config.path, position, most).map(|lines| (checkpoint, position, lines))
        });
        let (checkpoint, mut position, lines) = read.await??;
        // There is no `await` from here on: lines that were read are either pushed or read again.
        match self.marks.begin(batch) {
            Begin::Rewind(streams) => {
                // `None` stands for the position where the run began.
                self.position = streams[0].from;
                return Ok(Pull::Idle(Duration::ZERO));
            }
            Begin::Write(mut writer) => {
                for line in &lines {
                    if writer.is_full() {
                        break;
                    }
                    position += line.len() as u64;
                    writer.push_message(FILE, position, line.strip_suffix(b"\n").unwrap_or(line));
                }
            }
        }
        self.checkpoint = Some(checkpoint);
        self.position = Some(position);
        Ok(if lines.is_empty() { Pull::Finished } else { Pull::Events })
    }

    async fn close(&mut self) -> Result<()> {
        self.commit().await
    }
}

impl ReadOnce {
    /// Writes the position up to which the file is acknowledged to the checkpoint. It is durable when this function
    /// returns.
    async fn commit(&self) -> Result<()> {
        let Some((checkpoint, position)) = self.checkpoint.clone().zip(self.marks.of(FILE)) else {
            return Ok(());
        };
        // If a pull is dropped, its write continues. `replace` lets only one thread write, and asks for the position
        // then, so that an earlier position never replaces a later one.
        let marks = self.marks.clone();
        let write = self.context.blocking(move || {
            let latest = || marks.of(FILE).unwrap_or(position);
            checkpoint.file.replace(|| Ok(latest().to_string().into_bytes()))
        });
        write.await?
    }
}

impl Checkpoint {
    fn open(path: &Path) -> Result<Self> {
        let (file, contents) = StateFile::open(path, StateFileNames::CHECKPOINT, b"0")?;
        let start = contents.map_or(Some(0), |it| str::from_utf8(&it).ok()?.trim().parse().ok());
        let start = start.ok_or_else(|| {
            Error::configuration(format!("`{}` is not a checkpoint", path.display()))
        })?;
        Ok(Self { file: file.into(), start })
    }
}

/// Reads at most `most` lines, including their line feeds. The file has to be complete. For a file to which data is
/// still added, also check that the last line ends in a line feed. For a file that is not trusted, also limit the
/// length of a line.
fn lines(path: &Path, position: u64, most: usize) -> Result<Vec<Vec<u8>>> {
    let mut file = BufReader::new(File::open(path)?);
    file.seek(SeekFrom::Start(position))?;
    let mut lines = Vec::new();
    while lines.len() < most {
        let mut line = Vec::new();
        if file.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        lines.push(line);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{
        EventRef, Result,
        testing::{TestHost, conformance},
    };

    use super::ReadOnce;

    const CONFIG: &str = r#"{ "path": "in", "checkpoint": "at" }"#;

    fn scene(name: &str, lines: usize) -> Result<(TestHost, std::path::PathBuf)> {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let text = (0..lines).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
        std::fs::write(folder.join("in"), text)?;
        let host = TestHost::new();
        host.set_folder(&folder);
        Ok((host, folder))
    }

    #[test]
    fn run_continues_where_the_last_has_ended() -> Result<()> {
        let (host, folder) = scene("read-once", 600)?;
        let mut source = host.source::<ReadOnce>(CONFIG)?;
        let batches = source.pull_all()?;
        assert_eq!(
            batches.iter().map(|batch| batch.iter().count()).collect::<Vec<_>>(),
            [256, 256, 88]
        );
        // Pull 2 has failed, so the acknowledgement of pull 3 does not count. The first three events of pull 2 count.
        source.acks()?.ack(3)?;
        source.acks()?.ack(1)?;
        source.acks()?.fail(2, &[3..4, 7..9])?;
        source.stop()?;
        let mut source = host.source::<ReadOnce>(CONFIG)?;
        let batches = source.pull_all()?;
        let first = batches[0].iter().next().and_then(EventRef::raw);
        assert_eq!(first, Some(&b"line 259"[..]));
        for pull in [2, 1] {
            source.acks()?.ack(pull)?;
        }
        source.stop()?;
        assert!(host.source::<ReadOnce>(CONFIG)?.pull_all()?.is_empty());
        std::fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn contract_of_plugins_is_kept() -> Result<()> {
        let (_, folder) = scene("read-once-contract", 9)?;
        let config = format!(r#"{{ "path": "{0}/in", "checkpoint": "{0}/at" }}"#, folder.display());
        conformance::source::<ReadOnce>(&config).expect_no_faults();
        std::fs::remove_dir_all(folder)?;
        Ok(())
    }
}
