//! A sink with several deliveries in flight: each batch becomes a file.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use tremor_pdk::{Demand, ParallelSink, prelude::*};

/// Configuration of the sink in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// Folder for the files. It is created if it does not exist.
    folder: PathBuf,
}

/// Writes each batch to a file.
pub struct Spool {
    folder: PathBuf,
    context: ComponentContext,
    /// Number of the next file.
    files: AtomicU64,
}

impl Component for Spool {
    const NAME: &str = "spool";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let folder = context.resolve(config.folder);
        // The first number is the time, so that the file does not replace one that the sink of an earlier connection
        // has written.
        let files = AtomicU64::new(context.now_ns());
        Ok(Self { folder, context, files })
    }
}

impl ParallelSink for Spool {
    type Batch = RawBatch;
    const DEFAULT_CODEC: Option<&str> = Some("json");

    fn demand(&self) -> Demand {
        Demand::new().at_most(16)
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let (folder, mut bytes) = (self.folder.clone(), Vec::new());
        for event in batch {
            bytes.extend_from_slice(event.raw());
            bytes.push(b'\n');
        }
        let written = self.context.blocking(move || {
            fs::create_dir_all(&folder)?;
            // The rename makes the file visible only when it is complete.
            let new = folder.join(format!("{number}.new"));
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            // The file has to survive a failure of the machine once `deliver` returns `Ok(())`.
            file.sync_all()?;
            fs::rename(new, folder.join(format!("{number}.ndjson")))?;
            // The name is part of the folder.
            File::open(folder)?.sync_all()
        });
        Ok(written.await??)
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{
        Batch, Result, Undelivered,
        testing::{TestHost, conformance},
    };

    use super::Spool;

    #[test]
    fn each_batch_is_a_file() -> Result<()> {
        let host = TestHost::new();
        let folder = std::env::temp_dir().join(format!("spool-{}", std::process::id()));
        host.set_folder(&folder);
        let mut sink = host.sink::<Spool>(r#"{ "folder": "out" }"#)?;
        for message in [&b"one"[..], b"two"] {
            let mut batch = Batch::new();
            batch.push_message(message);
            sink.deliver(&batch).map_err(Undelivered::into_error)?;
        }
        sink.stop()?;
        let mut files = std::fs::read_dir(folder.join("out"))?
            .map(|file| std::fs::read(file?.path()))
            .collect::<Result<Vec<_>, _>>()?;
        files.sort();
        assert_eq!(files, [b"one\n", b"two\n"]);
        std::fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn contract_of_plugins_is_kept() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("spool-contract-{}", std::process::id()));
        let config = format!(r#"{{ "folder": "{}" }}"#, folder.display());
        conformance::sink::<Spool>(&config).expect_no_faults();
        std::fs::remove_dir_all(folder)?;
        Ok(())
    }
}
