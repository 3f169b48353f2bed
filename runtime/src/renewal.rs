//! Renewal of the files to which the configurations of connectors refer, such as tokens. If the contents of such a file
//! change, its connector gets another instance.

use std::{future::pending, path::PathBuf, time::Duration};

use tremor_pdk::Value;

use crate::{
    clock::Clock,
    flow::{Config, Flow},
    log,
    run_handle::RunHandle,
};

/// Time between two readings of the files.
const INTERVAL: Duration = Duration::from_secs(2);

/// A connector whose configuration refers to files.
struct Watched {
    flow: String,
    connector: String,
    config: Config,
    folder: PathBuf,
    /// The configuration at the last reading.
    last: Value<'static>,
    /// `true` if a file could not be read at the last reading.
    is_unreadable: bool,
}

/// Restarts each connector of `flows` after a change of a file to which its configuration refers. Never ends.
pub(crate) async fn watch<'f, T>(
    flows: impl Iterator<Item = &'f Flow>,
    run: &RunHandle,
    clock: &Clock,
) -> T {
    let mut watched: Vec<_> = flows.flat_map(connectors).collect();
    if watched.is_empty() {
        return pending().await;
    }
    loop {
        clock.sleep(INTERVAL).await;
        for connector in &mut watched {
            let flow = connector.flow.as_str().into();
            log::within(&flow, || connector.look(run));
        }
    }
}

fn connectors(flow: &Flow) -> impl Iterator<Item = Watched> {
    let with_files = flow.spec.connectors.iter().filter(|it| it.component.config.has_files());
    with_files.map(|connector| Watched {
        flow: flow.name().to_owned(),
        connector: connector.name.value.clone(),
        config: connector.component.config.clone(),
        folder: flow.folder().to_owned(),
        last: connector.component.config.exact().clone(),
        is_unreadable: false,
    })
}

impl Watched {
    fn look(&mut self, run: &RunHandle) {
        let component = &*self.connector;
        match self.config.read_again(&self.folder) {
            Ok(now) => {
                self.is_unreadable = false;
                if now != self.last {
                    tracing::info!(
                        component,
                        "restarts, because a file to which its configuration refers has changed"
                    );
                    self.last = now;
                    run.restart(&self.flow, component);
                }
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
    }
}
