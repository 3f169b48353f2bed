//! Aborts uploads that nobody continues: those of a run that was killed, and those of objects that failed.

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Error, Host, Result, Task, info, warn};

use super::{
    requests::Client,
    state::{State, Upload},
};

/// Pauses after a failure: the first one, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Aborts the uploads in the state file that no task continues.
#[derive(Clone)]
pub(super) struct Cleaner {
    client: Arc<Client>,
    state: Arc<State>,
}

impl Cleaner {
    pub(super) fn new(client: Arc<Client>, state: Arc<State>) -> Self {
        Self { client, state }
    }

    /// Starts a task that aborts uploads as soon as they are abandoned. Until all are aborted, the state of the
    /// connector shows the error.
    pub(super) fn start(&self, host: &Host) -> Task {
        let (this, host) = (self.clone(), host.clone());
        let problem = host.problem("uploads");
        host.clone().spawn("aborts unfinished uploads", async move {
            this.warn_of_others(&host);
            let mut pause = PAUSES.0;
            loop {
                this.state.wait_abandoned(|upload| this.is_ours(upload)).await;
                let aborted = this.abort_all().await;
                problem.update(&aborted);
                if aborted.is_ok() {
                    pause = PAUSES.0;
                } else {
                    host.sleep(pause).await;
                    pause = (2 * pause).min(PAUSES.1);
                }
            }
        })
    }

    /// Aborts the uploads that are abandoned now.
    ///
    /// # Errors
    /// The first error. The remaining uploads were tried as well.
    pub(super) async fn abort_all(&self) -> Result<()> {
        let mut result = Ok(());
        for upload in self.state.abandoned().iter().filter(|it| self.is_ours(it)) {
            result = result.and(self.abort(upload).await);
        }
        result
    }

    async fn abort(&self, upload: &Upload) -> Result<()> {
        let Self { client, state } = self;
        let key = &upload.key;
        let bucket = &client.settings.config.bucket;
        let failed = |error: Error| {
            error.context(format_args!(
                "cannot abort the unfinished upload of `{key}` in the bucket `{bucket}`"
            ))
        };
        let ids = match &upload.id {
            Some(id) => vec![id.clone()],
            None => client.uploads(key).await.map_err(|failure| failed(failure.error))?,
        };
        for id in &ids {
            client.abort(key, id).await.map_err(|failure| failed(failure.error))?;
            info!(client.host, "aborted the unfinished upload of `{key}` in the bucket `{bucket}`");
        }
        state.remove(&client.host, key).await
    }

    /// Returns whether an upload is in the configured bucket.
    fn is_ours(&self, upload: &Upload) -> bool {
        let settings = &self.client.settings;
        upload.endpoint == settings.url().to_string() && upload.bucket == settings.config.bucket
    }

    /// Warns of uploads in other buckets, which a configuration of an earlier run named.
    fn warn_of_others(&self, host: &Host) {
        let others: Vec<_> =
            self.state.abandoned().into_iter().filter(|it| !self.is_ours(it)).collect();
        if let Some(Upload { endpoint, bucket, .. }) = others.first() {
            warn!(
                host,
                "{} unfinished uploads of an earlier run stay in the state file, because they are in another bucket, \
                 such as `{bucket}` of `{endpoint}`; run the connector with that bucket once, or abort them by hand",
                others.len()
            );
        }
    }
}
