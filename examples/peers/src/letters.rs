//! A source that works between its pulls: it opens the files that appear in a folder, so that a file that is deleted
//! while the source is not pulled is still read.

use std::{
    collections::{HashSet, VecDeque},
    fs::{self, File},
    io::{self, Read},
    path::PathBuf,
    time::Duration,
};

use tremor_pdk::{Blocking, NoSink, Upkeep, prelude::*};

/// Configuration of the source in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// Folder with the files.
    folder: PathBuf,
}

/// Reads each file of a folder once.
pub struct Letters {
    folder: PathBuf,
    host: Host,
}

impl Component for Letters {
    const NAME: &str = "letters";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { folder: context.resolve(config.folder), host: context.into() })
    }
}

/// Files of the folder.
#[derive(Default)]
struct Inbox {
    known: HashSet<PathBuf>,
    /// Open files that were not read.
    unread: VecDeque<File>,
}

impl Inbox {
    /// Opens the new files of the folder.
    fn search(&mut self, folder: &PathBuf) -> io::Result<()> {
        let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        let paths: HashSet<_> = entries.iter().map(fs::DirEntry::path).collect();
        for path in paths.difference(&self.known) {
            self.unread.push_back(File::open(path)?);
        }
        self.known = paths;
        Ok(())
    }

    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = self.unread.pop_front() else { return Ok(None) };
        let mut letter = Vec::new();
        file.read_to_end(&mut letter)?;
        Ok(Some(letter))
    }
}

impl Connector for Letters {
    type Source = Reader;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Reader, NoSink>> {
        let unread = self.host.gauge("letters", "Letters that were not read.");
        let folder = self.folder.clone();
        let search = move |inbox: &mut Inbox| {
            inbox.search(&folder)?;
            unread.set_integer(inbox.unread.len() as u64);
            Ok(())
        };
        let inbox = self.host.upkeep("letters", Duration::from_secs(1), Inbox::default(), search);
        Ok(Halves::source(Reader { host: self.host.clone(), inbox, reading: None }))
    }
}

/// Reads the files that were found.
pub struct Reader {
    host: Host,
    inbox: Upkeep<Inbox>,
    reading: Option<Blocking<io::Result<Option<Vec<u8>>>>>,
}

impl Source for Reader {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        if self.reading.is_none() {
            let mut inbox = self.inbox.hold().await?;
            self.reading = Some(self.host.blocking(move || inbox.read()));
        }
        let Some(reading) = &mut self.reading else { return Ok(Pull::Events) };
        let letter = reading.await;
        self.reading = None;
        let Some(letter) = letter?? else { return Ok(Pull::Idle(Duration::from_secs(1))) };
        batch.push_message(&letter);
        Ok(Pull::Events)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use tremor_pdk::{
        EventRef, Result,
        testing::{TestHost, conformance},
    };

    use super::Letters;

    #[test]
    fn file_that_is_deleted_before_the_first_pull_is_read() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("letters-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let host = TestHost::new();
        let config = format!(r#"{{ "folder": "{}" }}"#, folder.display());
        let mut source = host.connect::<Letters>(&config)?;
        fs::write(folder.join("a"), "hello")?;
        host.block_on(host.host().sleep(Duration::from_millis(1_500)));
        assert_eq!(host.metric("letters"), Some(1.0));
        fs::remove_file(folder.join("a"))?;
        let (_, batch) = source.pull()?;
        assert_eq!(batch.iter().filter_map(EventRef::raw).collect::<Vec<_>>(), [b"hello"]);
        fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn contract_of_plugins_is_kept() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("letters-contract-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let config = format!(r#"{{ "folder": "{}" }}"#, folder.display());
        conformance::connector::<Letters>(&config).expect_no_faults();
        fs::remove_dir_all(folder)?;
        Ok(())
    }
}
