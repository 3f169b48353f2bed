//! Renewal of the files to which the configurations of connectors refer, such as tokens. If the contents of such a file
//! change, its connector gets another instance.
//!
//! A thread of its own reads the files, because reading a file of a file system that does not respond may take forever.

use std::{
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use tremor_pdk::Value;

use crate::{
    clock::Clock,
    flow::{Config, Flow},
    log,
    run_handle::RunHandle,
};

/// Time between two readings of the files.
const INTERVAL: Duration = Duration::from_secs(2);

/// The thread that reads the files. It ends when this value is dropped, or after the reading that it is in. The end of
/// the process does not wait for the thread.
pub(crate) struct Renewal {
    /// Dropping the sender ends the thread.
    _ends: Sender<()>,
}

/// A connector whose configuration refers to files.
struct Watched {
    flow: String,
    connector: String,
    config: Config,
    folder: PathBuf,
    /// The configuration because of which a restart was last requested.
    requested: Option<Value<'static>>,
    /// `true` if a file could not be read at the last reading.
    is_unreadable: bool,
}

/// Restarts each connector of `flows` after a change of a file to which its configuration refers. Returns `None` if no
/// configuration refers to a file, or if the clock is simulated.
pub(crate) fn watch<'f>(
    flows: impl Iterator<Item = &'f Flow>,
    run: &RunHandle,
    clock: &Clock,
) -> Option<Renewal> {
    let mut watched: Vec<_> = flows.flat_map(connectors).collect();
    if watched.is_empty() || clock.is_simulated() {
        return None;
    }
    let (ends, ended) = mpsc::channel();
    let run = run.clone();
    let reads = move || {
        while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            for connector in &mut watched {
                let flow = connector.flow.as_str().into();
                log::within(&flow, || {
                    if connector.has_changed() {
                        run.restart(&connector.flow, &connector.connector);
                    }
                });
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("renewal".to_owned()).spawn(reads) {
        tracing::warn!(
            %error,
            "cannot start the thread that reads files of configurations again: connectors do not notice changes"
        );
    }
    Some(Renewal { _ends: ends })
}

fn connectors(flow: &Flow) -> impl Iterator<Item = Watched> {
    let with_files = flow.spec.connectors.iter().filter(|it| it.component.config.has_files());
    with_files.map(|connector| Watched {
        flow: flow.name().to_owned(),
        connector: connector.name.value.clone(),
        config: connector.component.config.clone(),
        folder: flow.folder().to_owned(),
        requested: None,
        is_unreadable: false,
    })
}

impl Watched {
    /// Returns whether the connector has to restart, because a file has changed since its last instance was created.
    /// Logs that, and errors.
    fn has_changed(&mut self) -> bool {
        let component = &*self.connector;
        match self.config.current(&self.folder) {
            Ok(now) => {
                self.is_unreadable = false;
                // The next instance may not have been created yet.
                if now == self.config.last_read() || self.requested.as_ref() == Some(&now) {
                    return false;
                }
                tracing::info!(
                    component,
                    "restarts, because a file to which its configuration refers has changed"
                );
                self.requested = Some(now);
                return true;
            }
            Err(error) if !self.is_unreadable => {
                self.is_unreadable = true;
                tracing::warn!(
                    component,
                    %error,
                    "a file to which the configuration refers cannot be read again; the connector keeps its contents"
                );
            }
            Err(_) => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::{Watched, connectors};
    use crate::flow::{self, Environment, Flow};

    /// Creates a flow whose connector refers to a file, and returns the paths of this file and of the flow.
    fn scene(folder: &tempfile::TempDir) -> [PathBuf; 2] {
        let [file, path] = ["token", "flow.yaml"].map(|name| folder.path().join(name));
        let text = "connectors:
  in: { type: x, config: { token: '${file:token}' } }
links: []";
        fs::write(&file, "one").unwrap();
        fs::write(&path, text).unwrap();
        [file, path]
    }

    #[test]
    fn change_that_an_instance_has_read_is_no_reason_to_restart() {
        let folder = tempfile::tempdir().unwrap();
        let [file, path] = scene(&folder);
        let draft = flow::read(&path, &Environment::default()).unwrap();
        let mut watched: Vec<Watched> = connectors(draft.flow()).collect();
        let watched = &mut watched[0];
        let instance = |watched: &Watched| watched.config.read_again(folder.path()).unwrap();
        assert!(!watched.has_changed());
        fs::write(&file, "two").unwrap();
        instance(watched);
        assert!(!watched.has_changed(), "another restart has created the instance");
        fs::write(&file, "three").unwrap();
        assert!(watched.has_changed());
        assert!(!watched.has_changed(), "the restart was requested");
        instance(watched);
        assert!(!watched.has_changed());
        fs::write(&file, "two").unwrap();
        assert!(watched.has_changed());
    }

    /// A reload has read the file as well, but the connector continues with what its instance has read.
    #[test]
    fn kept_connector_notices_changes_since_its_instance() {
        let folder = tempfile::tempdir().unwrap();
        let [file, path] = scene(&folder);
        let read = || flow::read(&path, &Environment::default()).unwrap();
        let (earlier, config) =
            (read(), |it: &Flow| it.spec.connectors[0].component.config.clone());
        config(earlier.flow()).read_again(folder.path()).unwrap();
        fs::write(&file, "two").unwrap();
        let mut next = read().flow().clone();
        assert!(!connectors(&next).any(|mut it| it.has_changed()));
        next.spec.connectors[0].component.config.continue_from(&config(earlier.flow()));
        assert!(connectors(&next).all(|mut it| it.has_changed()));
    }
}
