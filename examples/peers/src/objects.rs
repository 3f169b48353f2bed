//! A sink that gathers deliveries: several of them become one object, which is a file here.

use std::{
    fs::{self, File},
    io::Write,
    mem,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tremor_pdk::{
    Demand, ParallelSink, lock, oneshot,
    prelude::*,
    units::{Interval, Size},
};

/// Configuration of the sink in the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// Folder for the objects. It is created if it does not exist.
    folder: PathBuf,
    /// Size in bytes at which an object is complete.
    max_bytes: Size,
    /// Age at which an object is complete.
    max_age: Interval,
}

/// Gathers deliveries and stores them as objects.
pub struct Objects {
    config: Config,
    host: Host,
    /// Number of the next object.
    next: AtomicU64,
    open: Mutex<Object>,
}

/// Object that is being gathered, and not stored yet.
#[derive(Default)]
struct Object {
    bytes: Vec<u8>,
    /// Time of the first delivery, in ns.
    began_ns: u64,
    /// Senders of the answers to the deliveries in the object.
    deliveries: Vec<oneshot::Sender<Result<()>>>,
}

impl Component for Objects {
    const NAME: &str = "objects";
    type Config = Config;

    fn new(mut config: Config, context: ComponentContext) -> Result<Self> {
        config.folder = context.resolve(&config.folder);
        // The first number is the time, so that the object does not replace one that the sink of an earlier connection
        // has stored.
        let next = AtomicU64::new(context.now_ns());
        Ok(Self { config, host: context.into(), next, open: Mutex::default() })
    }
}

impl ParallelSink for Objects {
    type Batch = RawBatch;
    const DEFAULT_CODEC: Option<&str> = Some("json");

    fn demand(&self) -> Demand {
        Demand::gather(64)
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let answer = self.append(batch);
        self.store_if(|object| object.bytes.len() as u64 >= self.config.max_bytes.get()).await;
        let lost = || Error::connection_lost("the object was not stored");
        answer.await.ok_or_else(lost)??;
        Ok(())
    }

    async fn on_tick(&self) -> Result<()> {
        let (now_ns, max_ns) = (self.host.monotonic_ns(), self.config.max_age.ns());
        self.store_if(|object| now_ns.saturating_sub(object.began_ns) >= max_ns).await;
        Ok(())
    }

    async fn flush(&self) -> Result<()> {
        self.store_if(|_| true).await;
        Ok(())
    }
}

impl Objects {
    /// Adds a delivery to the open object. The receiver gets the answer once the object is stored.
    fn append(&self, batch: &RawBatch) -> oneshot::Receiver<Result<()>> {
        let (sender, receiver) = oneshot::channel();
        let mut object = lock(&self.open);
        if object.deliveries.is_empty() {
            object.began_ns = self.host.monotonic_ns();
        }
        object.deliveries.push(sender);
        for event in batch {
            object.bytes.extend_from_slice(event.raw());
            object.bytes.push(b'\n');
        }
        receiver
    }

    /// Stores the open object if it is complete, and answers its deliveries.
    async fn store_if(&self, is_complete: impl FnOnce(&Object) -> bool) {
        let object = {
            let mut open = lock(&self.open);
            if open.deliveries.is_empty() || !is_complete(&open) {
                return;
            }
            mem::take(&mut *open)
        };
        let Object { bytes, deliveries, .. } = object;
        let name = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.config.folder.clone();
        let stored = self.host.blocking(move || -> Result<()> {
            fs::create_dir_all(&folder)?;
            // The rename makes the object visible only when it is complete.
            let new = folder.join(format!("{name}.new"));
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            // The object has to survive a failure of the machine once `deliver` returns `Ok(())`.
            file.sync_all()?;
            fs::rename(new, folder.join(format!("{name}.ndjson")))?;
            // The name is part of the folder.
            Ok(File::open(folder)?.sync_all()?)
        });
        let stored = stored.await.and_then(|stored| stored);
        deliveries.into_iter().for_each(|delivery| delivery.send(stored.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tremor_pdk::{
        Result,
        testing::{TestHost, batch_of, conformance},
    };

    use super::Objects;

    fn objects(folder: &Path) -> Result<Vec<String>> {
        let mut objects = std::fs::read_dir(folder.join("out"))?
            .map(|file| std::fs::read_to_string(file?.path()))
            .collect::<Result<Vec<_>, _>>()?;
        objects.sort();
        Ok(objects)
    }

    #[test]
    fn simultaneous_deliveries_become_one_object() -> Result<()> {
        let host = TestHost::new();
        let folder = std::env::temp_dir().join(format!("objects-{}", std::process::id()));
        host.set_folder(&folder);
        let config = r#"{ "folder": "out", "max_bytes": "8B", "max_age": "1h" }"#;
        let mut sink = host.sink::<Objects>(config)?;
        let batches = [["one"], ["two"], ["three"]].map(|messages| batch_of(&messages));
        let answers = sink.deliver_together(&batches)?;
        assert_eq!(answers, [Ok(()), Ok(()), Ok(())]);
        sink.stop()?;
        assert_eq!(objects(&folder)?, ["one\ntwo\n", "three\n"]);
        std::fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn contract_of_plugins_is_kept() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("objects-contract-{}", std::process::id()));
        let folder_name = folder.display();
        let config =
            format!(r#"{{ "folder": "{folder_name}", "max_bytes": "1MiB", "max_age": "1h" }}"#);
        conformance::sink::<Objects>(&config).expect_no_faults();
        std::fs::remove_dir_all(folder)?;
        Ok(())
    }
}
