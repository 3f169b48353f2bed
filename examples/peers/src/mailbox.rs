//! A source that acknowledges each message separately: it reads the files of a folder, and deletes a file once its
//! event is delivered.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tremor_pdk::{Acks, Blocking, InFlight, Tickets, prelude::*};

/// Configuration of the source in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// Folder with the files.
    folder: PathBuf,
    /// Maximum number of files in flight.
    #[serde(default = "default_max_in_flight")]
    max_in_flight: usize,
}

const fn default_max_in_flight() -> usize {
    100_000
}

/// Reads the files of a folder.
pub struct Mailbox {
    folder: PathBuf,
    host: Host,
    /// Files in flight. The ticket of an event is the path of its file.
    tickets: Tickets<PathBuf>,
    /// Read that is in flight. If a pull is dropped while it waits, the next pull continues to wait for this read.
    reading: Option<Blocking<io::Result<Files>>>,
}

/// Paths and contents of files.
type Files = Vec<(PathBuf, Vec<u8>)>;

impl Component for Mailbox {
    const NAME: &str = "mailbox";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let most =
            InFlight { events: config.max_in_flight, key: "max_in_flight", ..InFlight::UNLIMITED };
        let (folder, host) = (context.resolve(config.folder), (*context).clone());
        Ok(Self { folder, host, tickets: Tickets::new().at_most(most), reading: None })
    }
}

impl Source for Mailbox {
    type Batch = RawBatch;

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        Some(Box::new(self.tickets.clone()))
    }

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        if self.reading.is_none() {
            // A file whose event has failed is no longer in flight, so it is read again.
            let done = self.tickets.take().acknowledged;
            let in_flight = self.tickets.in_flight().into_iter().collect();
            let (folder, most) = (self.folder.clone(), batch.limit().events);
            self.reading = Some(self.host.blocking(move || {
                delete(&done)?;
                read(&folder, &in_flight, most)
            }));
        }
        let Some(reading) = &mut self.reading else { return Ok(Pull::Events) };
        let files = reading.await;
        self.reading = None;
        // There is no `await` from here on: files that were read are either pushed or read again.
        let mut writer = self.tickets.begin(batch);
        for (path, message) in files?? {
            writer.push_message(0, path, &message);
        }
        let is_empty = writer.is_empty();
        Ok(if is_empty { Pull::Idle(Duration::from_secs(1)) } else { Pull::Events })
    }

    async fn close(&mut self) -> Result<()> {
        let done = self.tickets.take().acknowledged;
        Ok(self.host.blocking(move || delete(&done)).await??)
    }
}

fn delete(files: &[PathBuf]) -> io::Result<()> {
    files.iter().try_for_each(fs::remove_file)
}

/// Reads at most `most` files of a folder, except those in flight.
fn read(folder: &Path, in_flight: &HashSet<PathBuf>, most: usize) -> io::Result<Files> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut paths: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| !in_flight.contains(path));
    paths.sort();
    paths.truncate(most);
    paths.into_iter().map(|path| fs::read(&path).map(|message| (path, message))).collect()
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{
        EventRef, Pull, Result,
        testing::{TestHost, conformance},
    };

    use super::Mailbox;

    const CONFIG: &str = r#"{ "folder": "" }"#;

    fn scene(name: &str) -> Result<(TestHost, std::path::PathBuf)> {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        for name in ["a", "b", "c"] {
            std::fs::write(folder.join(name), name)?;
        }
        let host = TestHost::new();
        host.set_folder(&folder);
        Ok((host, folder))
    }

    #[test]
    fn delivered_files_are_deleted_and_failed_files_read_again() -> Result<()> {
        let (host, folder) = scene("mailbox")?;
        let mut source = host.source::<Mailbox>(CONFIG)?;
        let (_, batch) = source.pull()?;
        let texts: Vec<_> = batch.iter().filter_map(EventRef::raw).collect();
        assert_eq!(texts, [b"a", b"b", b"c"]);
        let (pull, batch) = source.pull()?;
        assert!(matches!(pull, Pull::Idle(_)) && batch.is_empty(), "all messages are in flight");
        source.acks()?.fail(1, std::slice::from_ref(&(1..2)))?;
        let (_, batch) = source.pull()?;
        let texts: Vec<_> = batch.iter().filter_map(EventRef::raw).collect();
        assert_eq!(texts, [b"b"]);
        source.acks()?.ack(2)?;
        source.stop()?;
        assert_eq!(std::fs::read_dir(&folder)?.count(), 0);
        std::fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn contract_of_plugins_is_kept() -> Result<()> {
        let (_, folder) = scene("mailbox-contract")?;
        let config = format!(r#"{{ "folder": "{}" }}"#, folder.display());
        conformance::source::<Mailbox>(&config).expect_no_faults();
        std::fs::remove_dir_all(folder)?;
        Ok(())
    }
}
