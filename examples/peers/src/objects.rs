//! A sink that gathers deliveries: several of them become one object, which is a file here.

use std::{
    fs::{self, File},
    io::Write,
    mem,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tremor_pdk::{
    Demand, ParallelSink, oneshot,
    prelude::*,
    units::{Interval, Size},
};

/// The `config` of the flow file.
#[tremor_pdk::config]
pub struct Config {
    /// The folder for the objects; it is made if it does not exist.
    folder: PathBuf,
    /// An object is complete once it has this size.
    max_bytes: Size,
    /// An object is complete at this age.
    max_age: Interval,
}

/// The sink.
pub struct Objects {
    config: Config,
    host: Host,
    /// Number of the next object.
    next: AtomicU64,
    open: Mutex<Object>,
}

/// An object that is being gathered.
#[derive(Default)]
struct Object {
    bytes: Vec<u8>,
    /// Time of the first delivery, in ns.
    began_ns: u64,
    /// The deliveries that wait for the object.
    deliveries: Vec<oneshot::Sender<Result<()>>>,
}

impl Component for Objects {
    const NAME: &str = "objects";
    type Config = Config;

    fn new(mut config: Config, context: ComponentContext) -> Result<Self> {
        config.folder = context.resolve(&config.folder);
        // From the clock, because each connection has a sink of its own, and no object may replace another one.
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
    /// Adds a delivery to the open object. The receiver completes with the object.
    fn append(&self, batch: &RawBatch) -> oneshot::Receiver<Result<()>> {
        let (sender, receiver) = oneshot::channel();
        let mut object = self.open.lock().unwrap_or_else(PoisonError::into_inner);
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
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
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
            // Complete, or not there.
            let new = folder.join(format!("{name}.new"));
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            // `Ok(())` is to hold if the machine fails.
            file.sync_all()?;
            Ok(fs::rename(new, folder.join(format!("{name}.ndjson")))?)
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
    fn deliveries_at_the_same_time_are_one_object() -> Result<()> {
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
