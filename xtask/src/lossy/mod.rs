//! A file system that loses what was not synced, and fails on request. Programs use it through the kernel, so the system
//! calls that they really make decide what survives.
//!
//! The bytes of a file become durable with a sync of the file, and the entries of a folder with a sync of the folder.
//! A real file system promises no more, although most of them keep more.

mod fuse;
mod tree;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use fuser::{BackgroundSession, Config, MountOption};
use rustix::io::Errno;
use tempfile::TempDir;

use self::fuse::Mounted;
use self::tree::Tree;
pub(crate) use self::tree::{Loss, Planted};

/// Faults of the file system, while they last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Average number of operations of which one fails; 0 if none fails.
    pub(crate) one_in: u64,
    /// Each write and each sync fails.
    pub(crate) is_failing: bool,
    /// Maximum bytes of all files.
    pub(crate) capacity: Option<u64>,
}

/// An operation that changes the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// An entry of a folder is created, removed or renamed.
    Name,
    /// A file is written up to this offset.
    Write(u64, u64),
    /// A file gets this length.
    Resize(u64, u64),
    Sync(u64),
    SyncFolder,
}

struct State {
    tree: Tree,
    faults: Faults,
    random: fastrand::Rng,
    /// Number of operations until the power fails, if it fails.
    remaining: Option<u64>,
    /// `true` after the power has failed: each operation fails.
    is_off: bool,
}

/// State that the thread of the file system shares with the scenario.
struct Shared(Mutex<State>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change, unless the power has failed, or a fault prevents it.
    fn operate<T>(
        &self,
        operation: Operation,
        change: impl FnOnce(&mut Tree) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut state = self.lock();
        let state = &mut *state;
        if let Some(remaining) = &mut state.remaining {
            *remaining = remaining.saturating_sub(1);
            state.is_off |= *remaining == 0;
        }
        if state.is_off {
            return Err(Errno::IO);
        }
        let Faults { one_in, is_failing, capacity } = state.faults;
        if is_failing || one_in > 0 && state.random.u64(..one_in) == 0 {
            if let Operation::Sync(node) = operation {
                state.tree.fail_sync(node);
            }
            return Err(Errno::IO);
        }
        if let (Operation::Write(node, end) | Operation::Resize(node, end), Some(capacity)) =
            (operation, capacity)
        {
            let growth = end.saturating_sub(state.tree.attributes(node)?.len);
            if growth > 0 && state.tree.used() + growth > capacity {
                return Err(Errno::NOSPC);
            }
        }
        change(&mut state.tree)
    }
}

/// A mounted file system in memory. It is unmounted when it is dropped.
pub(crate) struct LossyDisk {
    /// The mount, except while the file system is mounted again. It is declared before `folder`, because it has to be
    /// dropped first.
    session: Option<BackgroundSession>,
    shared: Arc<Shared>,
    folder: TempDir,
}

impl LossyDisk {
    /// Mounts an empty file system at a temporary folder. The seed determines which operations fail, and which data
    /// survives a loss of power.
    ///
    /// # Errors
    /// The machine has no FUSE, or the user may not mount.
    pub(crate) fn mount(seed: u64) -> Result<Self> {
        let state = State {
            tree: Tree::new(),
            faults: Faults::default(),
            random: fastrand::Rng::with_seed(seed),
            remaining: None,
            is_off: false,
        };
        let folder = tempfile::Builder::new().prefix("lossy-").tempdir()?;
        let mut disk = Self { session: None, shared: Arc::new(Shared(Mutex::new(state))), folder };
        disk.start()?;
        Ok(disk)
    }

    fn start(&mut self) -> Result<()> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("lossy".to_owned())];
        let session = fuser::spawn_mount(Mounted(self.shared.clone()), self.path(), &config);
        let session = session.with_context(|| {
            let path = self.path().display();
            format!("cannot mount a file system at {path} with FUSE; run this as root on Linux")
        })?;
        self.session = Some(session);
        Ok(())
    }

    /// Returns the folder at which the file system is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces the faults.
    pub(crate) fn set_faults(&self, faults: Faults) {
        self.shared.lock().faults = faults;
    }

    /// Breaks a promise from now on.
    pub(crate) fn plant(&self, planted: Planted) {
        self.shared.lock().tree.planted = Some(planted);
    }

    /// Returns the bytes of all files.
    pub(crate) fn used(&self) -> u64 {
        self.shared.lock().tree.used()
    }

    /// Makes the power fail at an operation: this one and all later ones fail and change nothing.
    pub(crate) fn fail_power_at(&self, operation: u64) {
        self.shared.lock().remaining = Some(operation);
    }

    /// Returns whether the power has failed.
    pub(crate) fn is_off(&self) -> bool {
        self.shared.lock().is_off
    }

    /// Continues after the power has failed. No process may use the file system. With a `loss`, data that was not synced
    /// is lost; without one, only the processes were killed.
    ///
    /// # Errors
    /// The file system is in use, or cannot be mounted again.
    pub(crate) fn restart(&mut self, loss: Option<Loss>) -> Result<()> {
        if let Some(loss) = loss {
            if let Some(session) = self.session.take() {
                match session.umount_and_join() {
                    // The thread may notice the end of the connection in the middle of a request.
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    ended => ended.context("cannot unmount the file system")?,
                }
            }
            let mut state = self.shared.lock();
            let state = &mut *state;
            state.tree.lose_power(loss, &mut state.random);
        }
        let mut state = self.shared.lock();
        (state.remaining, state.is_off) = (None, false);
        drop(state);
        // The kernel forgets what it has cached, as after a start of the machine.
        if self.session.is_none() { self.start() } else { Ok(()) }
    }
}

/// Runs a check that mounts this file system, unless that is impossible on this machine, which is reported.
///
/// # Errors
/// The check fails.
pub(crate) fn run_or_skip(name: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
    match LossyDisk::mount(0) {
        Ok(disk) => {
            drop(disk);
            check()
        }
        Err(error) => {
            eprintln!("SKIPPED: {name}: {error:#}");
            Ok(())
        }
    }
}
