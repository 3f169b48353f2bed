//! The metadata by which a peer recognises events that are delivered again.

use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher, RandomState},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use tremor_abi::{
    batch::HostBatch,
    value::{Object, Value},
};
use tremor_pdk::{Batch, Error, Result};

use crate::flow::Disk;

/// Random number of a queue, in hexadecimal digits. It stays the same as long as the folder exists.
pub(super) struct Identity(String);

impl Identity {
    /// Reads the number of the queue in this folder, or creates it. Blocks the thread.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let path = folder.join(Disk::ID);
        let failed = |error: io::Error| {
            let path = path.display();
            // The connector tries again.
            Error::connection_refused(format_args!(
                "cannot read or create {path}: {error}; check the disk, its free space and the permissions"
            ))
        };
        match fs::read_to_string(&path) {
            Ok(text) if is_valid(text.trim_end()) => return Ok(Self(text.trim_end().to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let id = format!("{:016x}", RandomState::new().hash_one(&path));
        create(folder, &id).map_err(failed)?;
        Ok(Self(id))
    }

    /// Adds the identity of each event of a record to the metadata of the events. Metadata that is not an object is
    /// replaced.
    pub(super) fn add(&self, record: u64, batch: &mut Batch) {
        let Self(folder) = self;
        for position in 0..batch.len() {
            let mut queue = Object::new();
            queue.insert("folder", folder.clone());
            queue.insert("record", record);
            queue.insert("position", position as u64);
            queue.insert("id", format!("{folder}-{record}-{position}"));
            let metadata = batch.metadata_mut(position);
            if metadata.as_object_mut().is_none() {
                *metadata = Value::object();
            }
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("queue", Value::Object(queue));
            }
        }
    }
}

fn is_valid(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Creates the file as a whole, and makes it durable.
fn create(folder: &Path, id: &str) -> io::Result<()> {
    let unfinished = folder.join(format!("{}.new", Disk::ID));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    fs::rename(&unfinished, folder.join(Disk::ID))?;
    File::open(folder)?.sync_all()
}
