//! A disk in memory that loses, tears and reorders what was not synced, as a disk does that loses its power.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile, Open};
use crate::tests::inode::{Change, Inode, write};

/// A simulated disk. Clones are the same disk.
#[derive(Clone)]
pub(super) struct SimDisk(Arc<Mutex<World>>);

#[expect(clippy::struct_excessive_bools, reason = "the conditions are independent")]
struct World {
    random: fastrand::Rng,
    inodes: Vec<Inode>,
    dirs: BTreeMap<PathBuf, Dir>,
    locked: BTreeSet<usize>,
    /// `true` if the next lock whose holder is asked for is released before the holder is known.
    releases_lock: bool,
    /// Operations that changed or synced something.
    operations: u64,
    /// The operation at which the machine stops.
    stops_at: Option<u64>,
    is_stopped: bool,
    /// Number of writes and syncs of which one fails; 0 if all succeed.
    fails_one_in: u32,
    /// `true` if reads fail.
    fails_reads: bool,
    /// `true` if writes succeed although syncs fail.
    fails_syncs_only: bool,
    /// Bytes of all files that the disk has space for.
    space: usize,
    is_traced: bool,
}

#[derive(Default)]
struct Dir {
    cache: BTreeMap<String, Entry>,
    durable: BTreeMap<String, Entry>,
    pending: Vec<DirChange>,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    File(usize),
    Dir,
}

#[derive(Clone, Debug)]
enum DirChange {
    Link(String, Entry),
    Unlink(String),
    Rename(String, String),
}

fn apply(entries: &mut BTreeMap<String, Entry>, change: &DirChange) {
    match change {
        DirChange::Link(name, entry) => drop(entries.insert(name.clone(), *entry)),
        DirChange::Unlink(name) => drop(entries.remove(name)),
        DirChange::Rename(from, to) => {
            if let Some(entry) = entries.remove(from) {
                entries.insert(to.clone(), entry);
            }
        }
    }
}

impl World {
    fn check(&self) -> io::Result<()> {
        if self.is_stopped { Err(io::Error::other("the machine has stopped")) } else { Ok(()) }
    }

    /// Counts an operation whose effect is pending. Fails if the machine stops during it.
    fn count(&mut self, operation: impl FnOnce() -> String) -> io::Result<()> {
        self.operations += 1;
        if self.is_traced {
            println!("{}: {}", self.operations, operation());
        }
        self.is_stopped |= self.stops_at.is_some_and(|it| self.operations >= it);
        self.check()
    }

    fn fails(&mut self) -> bool {
        self.fails_one_in > 0 && self.random.u32(..self.fails_one_in) == 0
    }

    fn split(path: &Path) -> io::Result<(&Path, String)> {
        let name = path.file_name().and_then(|it| it.to_str()).ok_or(ErrorKind::InvalidInput)?;
        Ok((path.parent().ok_or(ErrorKind::InvalidInput)?, name.to_owned()))
    }

    fn dir(&mut self, path: &Path) -> io::Result<&mut Dir> {
        // A folder exists if the entries of all folders above it do.
        let mut at = path;
        while let (Some(parent), Some(name)) =
            (at.parent(), at.file_name().and_then(|it| it.to_str()))
        {
            let entries = self.dirs.get(parent).ok_or(ErrorKind::NotFound)?;
            if !matches!(entries.cache.get(name), Some(Entry::Dir)) {
                return Err(ErrorKind::NotFound.into());
            }
            at = parent;
        }
        self.dirs.get_mut(path).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn change(&mut self, dir: &Path, change: &DirChange) -> io::Result<()> {
        let dir = self.dir(dir)?;
        apply(&mut dir.cache, change);
        dir.pending.push(change.clone());
        self.count(|| format!("{change:?}"))
    }

    fn file(&mut self, path: &Path) -> io::Result<Option<usize>> {
        let (dir, name) = Self::split(path)?;
        match self.dir(dir)?.cache.get(&name) {
            Some(Entry::File(inode)) => Ok(Some(*inode)),
            Some(Entry::Dir) => Err(ErrorKind::IsADirectory.into()),
            None => Ok(None),
        }
    }

    fn used(&self) -> usize {
        let entries = self.dirs.values().flat_map(|it| it.cache.values());
        entries
            .map(|it| if let Entry::File(inode) = it { self.inodes[*inode].cache.len() } else { 0 })
            .sum()
    }
}

impl SimDisk {
    pub(super) fn new(seed: u64) -> Self {
        let mut dirs = BTreeMap::new();
        dirs.insert(PathBuf::from("/"), Dir::default());
        Self(Arc::new(Mutex::new(World {
            random: fastrand::Rng::with_seed(seed),
            inodes: Vec::new(),
            dirs,
            locked: BTreeSet::new(),
            releases_lock: false,
            operations: 0,
            stops_at: None,
            is_stopped: false,
            fails_one_in: 0,
            fails_syncs_only: false,
            fails_reads: false,
            space: usize::MAX,
            is_traced: false,
        })))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// Stops the machine during the operation `count` from now.
    pub(super) fn stop_after(&self, count: u64) {
        let mut world = self.world();
        world.stops_at = Some(world.operations + count);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.world().is_stopped
    }

    /// Makes one of `count` writes and syncs fail.
    pub(super) fn fail_one_in(&self, count: u32) {
        self.world().fails_one_in = count;
    }

    /// Makes all syncs fail.
    pub(super) fn fail_syncs(&self) {
        let mut world = self.world();
        (world.fails_one_in, world.fails_syncs_only) = (1, true);
    }

    pub(super) fn fail_reads(&self, fails: bool) {
        self.world().fails_reads = fails;
    }

    /// Releases the next lock whose holder is asked for, before the holder is known.
    pub(super) fn release_next_lock(&self) {
        self.world().releases_lock = true;
    }

    pub(super) fn set_space(&self, bytes: usize) {
        self.world().space = bytes;
    }

    pub(super) fn used(&self) -> usize {
        self.world().used()
    }

    pub(super) fn operations(&self) -> u64 {
        self.world().operations
    }

    pub(super) fn trace(&self, is_traced: bool) {
        self.world().is_traced = is_traced;
    }

    /// Ends the process: locks are released, and what was written can still be read.
    pub(super) fn kill(&self) {
        let mut world = self.world();
        if world.is_traced {
            println!("the process ends");
        }
        world.locked.clear();
        world.stops_at = None;
        world.is_stopped = false;
    }

    /// Ends the process and loses what was not synced.
    pub(super) fn lose_power(&self) {
        self.kill();
        let mut world = self.world();
        let World { random, inodes, dirs, .. } = &mut *world;
        for inode in inodes {
            inode.tear(random);
            inode.cache.clone_from(&inode.durable);
        }
        for dir in dirs.values_mut() {
            for change in std::mem::take(&mut dir.pending) {
                if random.bool() {
                    apply(&mut dir.durable, &change);
                }
            }
            dir.cache.clone_from(&dir.durable);
        }
    }

    /// Returns the contents of a file.
    pub(super) fn contents(&self, path: impl AsRef<Path>) -> Vec<u8> {
        let mut world = self.world();
        let inode = world.file(path.as_ref()).unwrap().expect("the file exists");
        world.inodes[inode].cache.clone()
    }

    /// Changes the contents of a file durably.
    pub(super) fn set_contents(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let mut world = self.world();
        let inode = world.file(path.as_ref()).unwrap().expect("the file exists");
        let inode = &mut world.inodes[inode];
        inode.pending.clear();
        inode.cache = bytes.to_vec();
        inode.durable = bytes.to_vec();
    }

    /// Returns what all files contain.
    pub(super) fn digest(&self) -> Vec<(PathBuf, String, Vec<u8>)> {
        let world = self.world();
        let mut files = Vec::new();
        for (path, dir) in &world.dirs {
            for (name, entry) in &dir.cache {
                if let Entry::File(inode) = entry {
                    files.push((path.clone(), name.clone(), world.inodes[*inode].cache.clone()));
                }
            }
        }
        files
    }

    /// Returns a copy of this disk.
    pub(super) fn fork(&self) -> Self {
        let world = self.world();
        let copy = Self::new(1);
        let mut other = copy.world();
        for inode in &world.inodes {
            let (cache, durable) = (inode.cache.clone(), inode.durable.clone());
            other.inodes.push(Inode { cache, durable, pending: Vec::new() });
        }
        for (path, dir) in &world.dirs {
            let (cache, durable) = (dir.cache.clone(), dir.durable.clone());
            other.dirs.insert(path.clone(), Dir { cache, durable, pending: Vec::new() });
        }
        drop(other);
        copy
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
}

struct SimLock {
    file: SimFile,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.file.disk.world().locked.remove(&self.file.inode);
    }
}

impl Disk for SimDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check()?;
        let (dir, name) = World::split(path)?;
        if world.dir(dir)?.cache.contains_key(&name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        world.dirs.insert(path.to_owned(), Dir::default());
        world.change(dir, &DirChange::Link(name, Entry::Dir))
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        let mut world = self.world();
        world.check()?;
        Ok(world.dir(path).is_ok())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.check()?;
        Ok(world.dir(path)?.cache.keys().cloned().collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check()?;
        world.dir(path)?;
        world.count(|| format!("sync {}", path.display()))?;
        let dir = world.dir(path)?;
        for change in std::mem::take(&mut dir.pending) {
            apply(&mut dir.durable, &change);
        }
        Ok(())
    }

    fn open(&self, path: &Path, open: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        world.check()?;
        let inode = match (world.file(path)?, open) {
            (Some(inode), Open::Existing) => inode,
            (None, Open::Existing) => return Err(ErrorKind::NotFound.into()),
            (Some(inode), Open::Empty) => {
                world.inodes[inode].cache.clear();
                world.inodes[inode].pending.push(Change::SetLen(0));
                world.count(|| format!("empty file {inode}"))?;
                inode
            }
            (None, Open::Empty) => {
                let (dir, name) = World::split(path)?;
                world.inodes.push(Inode::default());
                let inode = world.inodes.len() - 1;
                world.change(dir, &DirChange::Link(name, Entry::File(inode)))?;
                inode
            }
        };
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path, Open::Existing)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check()?;
        world.file(path)?.ok_or(ErrorKind::NotFound)?;
        let (dir, name) = World::split(path)?;
        world.change(dir, &DirChange::Unlink(name))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.check()?;
        world.file(from)?.ok_or(ErrorKind::NotFound)?;
        let (dir, from) = World::split(from)?;
        let (_, to) = World::split(to)?;
        world.change(dir, &DirChange::Rename(from, to))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let exists = self.world().file(path)?.is_some();
        self.open(path, if exists { Open::Existing } else { Open::Empty })?;
        let mut world = self.world();
        let inode = world.file(path)?.ok_or(ErrorKind::NotFound)?;
        if !world.locked.insert(inode) {
            return Ok(None);
        }
        Ok(Some(Arc::new(SimLock { file: SimFile { disk: self.clone(), inode } })))
    }

    fn holder(&self, path: &Path) -> io::Result<Option<u32>> {
        let mut world = self.world();
        let inode = world.file(path)?;
        if std::mem::take(&mut world.releases_lock) {
            world.locked.clear();
        }
        Ok(inode.filter(|it| world.locked.contains(it)).map(|_| 1))
    }

    fn random(&self) -> io::Result<u64> {
        let mut world = self.world();
        world.check()?;
        Ok(world.random.u64(..))
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        let world = self.disk.world();
        world.check()?;
        Ok(world.inodes[self.inode].cache.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let world = self.disk.world();
        world.check()?;
        if world.fails_reads {
            return Err(io::Error::other("simulated error of a read"));
        }
        let contents = &world.inodes[self.inode].cache;
        let contents = contents.get(offset as usize..).unwrap_or_default();
        let len = contents.len().min(buffer.len());
        buffer[..len].copy_from_slice(&contents[..len]);
        Ok(len)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        world.check()?;
        let mut bytes = buffers.iter().map(|it| &**it).collect::<Vec<&[u8]>>().concat();
        let offset = offset as usize;
        let grows = (offset + bytes.len()).saturating_sub(world.inodes[self.inode].cache.len());
        let mut result = Ok(());
        if grows > 0 && world.used() + grows > world.space {
            bytes.truncate(bytes.len() - grows);
            result = Err(ErrorKind::StorageFull.into());
        } else if !world.fails_syncs_only && world.fails() {
            let len = world.random.usize(..=bytes.len());
            bytes.truncate(len);
            result = Err(io::Error::other("simulated error of a write"));
        }
        let inode = &mut world.inodes[self.inode];
        write(&mut inode.cache, offset, &bytes);
        let len = bytes.len();
        inode.pending.push(Change::Write { offset, bytes });
        world.count(|| format!("write {len} to file {} at {offset}: {result:?}", self.inode))?;
        result
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        world.check()?;
        let inode = &mut world.inodes[self.inode];
        inode.cache.resize(len as usize, 0);
        inode.pending.push(Change::SetLen(len as usize));
        world.count(|| format!("cut file {} to {len}", self.inode))
    }

    /// Fails once and then succeeds, without what was lost: the pages were marked clean, and may be evicted.
    fn sync(&self) -> io::Result<()> {
        let mut world = self.disk.world();
        world.check()?;
        world.count(|| format!("sync file {}", self.inode))?;
        if world.fails() {
            if world.is_traced {
                println!("the sync fails");
            }
            let World { random, inodes, .. } = &mut *world;
            let inode = &mut inodes[self.inode];
            inode.tear(random);
            if random.bool() {
                inode.cache.clone_from(&inode.durable);
            }
            return Err(io::Error::other("simulated error of a sync"));
        }
        world.inodes[self.inode].sync();
        Ok(())
    }
}

impl DiskFile for SimLock {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_at(buffers, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
