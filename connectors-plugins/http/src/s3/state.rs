//! The state file: the uploads that are not complete, so that the next run aborts them.

use std::{
    future::poll_fn,
    path::Path,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

use tremor_pdk::{
    Error, ErrorPolicy, Host, Result, StateFile, StateFileNames, lock,
    serde::{Deserialize, Serialize},
};

const NAMES: StateFileNames = StateFileNames { file: "state file", key: "state", user: "sink" };

/// Format version of the state file.
const VERSION: u64 = 1;

/// An upload that is not complete.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
pub(super) struct Upload {
    /// URL of the server.
    pub(super) endpoint: String,
    pub(super) bucket: String,
    /// Key of the object, which no other upload has.
    pub(super) key: String,
    /// `None` while the ID is unknown: the upload may have begun, even several times.
    #[serde(default, rename = "upload_id")]
    pub(super) id: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
struct Content {
    version: u64,
    uploads: Vec<Upload>,
}

/// The state file, which only one sink uses.
pub(super) struct State {
    file: StateFile,
    uploads: Mutex<Uploads>,
}

#[derive(Default)]
struct Uploads {
    /// Uploads, and whether a task continues them.
    list: Vec<(Upload, bool)>,
    /// Waker of the task that aborts abandoned uploads.
    waker: Option<Waker>,
}

/// An upload in the state file. If it is dropped before [`Recorded::end`], the upload is abandoned.
pub(super) struct Recorded {
    state: Arc<State>,
    host: Host,
    key: String,
}

impl State {
    /// Opens and locks the state file. Without a file, no upload is recorded. May block.
    ///
    /// # Errors
    /// The file cannot be read or written, is not a state file, or another sink uses it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let (file, bytes) = StateFile::open(path, NAMES, &text(Vec::new())?)?;
        let content = bytes.map_or_else(|| Ok(Vec::new()), |bytes| parse(&bytes, path))?;
        let list = content.into_iter().map(|upload| (upload, false)).collect();
        let uploads = Mutex::new(Uploads { list, waker: None });
        Ok(Self { file, uploads })
    }

    /// Records that an upload is about to begin. The record is durable when this function returns.
    ///
    /// # Errors
    /// The file cannot be written. The upload must not begin.
    pub(super) async fn begin(self: &Arc<Self>, host: &Host, upload: Upload) -> Result<Recorded> {
        let key = upload.key.clone();
        lock(&self.uploads).list.push((upload, true));
        let recorded = Recorded { state: self.clone(), host: host.clone(), key: key.clone() };
        if let Err(error) = self.save(host).await {
            lock(&self.uploads).list.retain(|(it, _)| it.key != key);
            return Err(error);
        }
        Ok(recorded)
    }

    /// Returns the uploads that no task continues.
    pub(super) fn abandoned(&self) -> Vec<Upload> {
        let uploads = lock(&self.uploads);
        uploads.list.iter().filter(|(_, is_live)| !is_live).map(|(it, _)| it.clone()).collect()
    }

    /// Completes once an upload is abandoned that fulfils the condition. Only one task may wait.
    pub(super) async fn wait_abandoned(&self, is_wanted: impl Fn(&Upload) -> bool) {
        poll_fn(|context| {
            let mut uploads = lock(&self.uploads);
            if uploads.list.iter().any(|(it, is_live)| !is_live && is_wanted(it)) {
                return Poll::Ready(());
            }
            uploads.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Removes an upload, because the server has ended it.
    ///
    /// # Errors
    /// The file cannot be written. The next run aborts the upload again, which has no effect.
    pub(super) async fn remove(self: &Arc<Self>, host: &Host, key: &str) -> Result<()> {
        lock(&self.uploads).list.retain(|(it, _)| it.key != key);
        self.save(host).await
    }

    fn abandon(&self, key: &str) {
        let waker = {
            let mut uploads = lock(&self.uploads);
            uploads
                .list
                .iter_mut()
                .filter(|(it, _)| it.key == key)
                .for_each(|(_, is_live)| *is_live = false);
            uploads.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Writes the current uploads to the file.
    async fn save(self: &Arc<Self>, host: &Host) -> Result<()> {
        let this = self.clone();
        host.blocking(move || {
            let uploads = || lock(&this.uploads).list.iter().map(|(it, _)| it.clone()).collect();
            this.file.replace(|| text(uploads()))
        })
        .await?
    }
}

impl Recorded {
    /// Records the ID of the upload.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) async fn set_id(&self, id: &str) -> Result<()> {
        for (upload, _) in &mut lock(&self.state.uploads).list {
            if upload.key == self.key {
                upload.id = Some(id.to_owned());
            }
        }
        self.state.save(&self.host).await
    }

    /// Removes the upload, because it is complete.
    ///
    /// # Errors
    /// See [`State::remove`].
    pub(super) async fn end(self) -> Result<()> {
        self.state.remove(&self.host, &self.key).await
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.state.abandon(&self.key);
    }
}

/// Returns the contents of a state file.
fn text(uploads: Vec<Upload>) -> Result<Vec<u8>> {
    let content = Content { version: VERSION, uploads };
    let text = serde_json::to_string_pretty(&content).map_err(Error::internal)? + "\n";
    Ok(text.into_bytes())
}

fn parse(bytes: &[u8], path: &Path) -> Result<Vec<Upload>> {
    let unusable = |why: &dyn std::fmt::Display| {
        Error::configuration(format_args!(
            "cannot read the state file `{}`: {why}; correct `state`, or delete the file and abort the unfinished \
             uploads of the bucket",
            path.display()
        ))
    };
    let content: Content = serde_json::from_slice(bytes).map_err(|error| {
        unusable(&format_args!("it is damaged, or is not a state file ({error})"))
    })?;
    if content.version != VERSION {
        let version = content.version;
        return Err(unusable(&format_args!(
            "it has version {version}, but this plugin supports version {VERSION}"
        )));
    }
    Ok(content.uploads)
}

/// Sets the policy of an error of the state file during a run, when an upload can be repeated.
pub(super) fn transient(error: Error) -> Error {
    error.with_policy(ErrorPolicy::RETRY)
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use tremor_pdk::testing::TestHost;

    use super::{State, Upload};

    fn upload(key: &str) -> Upload {
        let (endpoint, bucket) = ("http://a:80".to_owned(), "b".to_owned());
        Upload { endpoint, bucket, key: key.to_owned(), id: None }
    }

    #[test]
    fn upload_is_recorded_before_it_begins_until_it_ends() {
        let (folder, test) = (tempfile::tempdir().unwrap(), TestHost::new());
        let (path, host) = (folder.path().join("state"), test.host());
        let state = Arc::new(State::open(&path).unwrap());
        let [one, two] =
            ["1", "2"].map(|key| test.block_on(state.begin(&host, upload(key))).unwrap());
        test.block_on(two.set_id("id-2")).unwrap();
        assert_eq!(state.abandoned(), []);
        test.block_on(one.end()).unwrap();
        drop(two);
        let expected = Upload { id: Some("id-2".to_owned()), ..upload("2") };
        assert_eq!(state.abandoned(), std::slice::from_ref(&expected));
        test.block_on(state.wait_abandoned(|it| it.key == "2"));
        drop(state);
        let state = Arc::new(State::open(&path).unwrap());
        assert_eq!(state.abandoned(), [expected]);
        test.block_on(state.remove(&host, "2")).unwrap();
        drop(state);
        assert_eq!(State::open(&path).unwrap().abandoned(), []);
    }

    #[test]
    fn second_sink_and_damaged_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let state = State::open(&path).unwrap();
        let error = State::open(&path).err().unwrap();
        assert!(error.to_string().contains("another sink") && !error.is_final(), "{error}");
        drop(state);
        for (text, part) in [("{", "damaged"), (r#"{"version":2,"uploads":[]}"#, "version 2")] {
            fs::write(&path, text).unwrap();
            let error = State::open(&path).err().unwrap();
            assert!(error.to_string().contains(part) && error.is_final(), "{error}");
        }
        let error = State::open(&folder.path().join("none/state")).err().unwrap();
        assert!(error.to_string().starts_with("cannot write the state file `"), "{error}");
    }
}
