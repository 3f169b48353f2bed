//! The files and folders of a file system that distinguishes what is durable from what was only written.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use rustix::io::Errno;

/// Number of the root folder, as FUSE expects it.
pub(super) const ROOT: u64 = 1;
/// Bytes that a disk writes or loses together, unless the write is torn.
const PAGE: usize = 4_096;
/// Bytes that a disk never tears.
const SECTOR: usize = 512;

/// Extent to which a loss of power affects data that was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No data survives that was not synced.
    Everything,
    /// Random pages survive, some of them in part, and the first of the changes to folders.
    Some,
}

/// A promise that the file system breaks, so that checks can show that they find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A sync of a file makes nothing durable.
    Syncs,
    /// A sync of a folder makes nothing durable.
    FolderSyncs,
}

/// Attributes of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) node: u64,
    pub(super) is_folder: bool,
    /// Length in bytes.
    pub(super) len: u64,
}

/// Files and folders by their numbers.
pub(super) struct Tree {
    nodes: BTreeMap<u64, Node>,
    /// Number of the next file or folder.
    next: u64,
    /// Changes of folders that are not durable, in their order.
    changes: Vec<Change>,
    /// Promise that is broken.
    pub(super) planted: Option<Planted>,
}

enum Node {
    File(File),
    Folder(Folder),
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// Indexes of the pages that were written and not synced, also of pages behind the end of a file that was cut.
    dirty: BTreeSet<usize>,
}

#[derive(Default)]
struct Folder {
    entries: BTreeMap<OsString, u64>,
    durable: BTreeMap<OsString, u64>,
}

/// An atomic change of folders: the folders, the names, and their new nodes, which are `None` for removed entries.
struct Change(Vec<(u64, OsString, Option<u64>)>);

impl Change {
    fn touches(&self, folder: u64) -> bool {
        self.0.iter().any(|(parent, ..)| *parent == folder)
    }
}

impl Folder {
    fn set(entries: &mut BTreeMap<OsString, u64>, name: &OsStr, node: Option<u64>) {
        match node {
            Some(node) => _ = entries.insert(name.to_owned(), node),
            None => _ = entries.remove(name),
        }
    }
}

impl Tree {
    /// Creates a tree with an empty root folder.
    pub(super) fn new() -> Self {
        let nodes = BTreeMap::from([(ROOT, Node::Folder(Folder::default()))]);
        Self { nodes, next: ROOT + 1, changes: Vec::new(), planted: None }
    }

    fn folder(&self, node: u64) -> Result<&Folder, Errno> {
        match self.nodes.get(&node) {
            Some(Node::Folder(folder)) => Ok(folder),
            Some(Node::File(_)) => Err(Errno::NOTDIR),
            None => Err(Errno::NOENT),
        }
    }

    fn file(&self, node: u64) -> Result<&File, Errno> {
        match self.nodes.get(&node) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder(_)) => Err(Errno::ISDIR),
            None => Err(Errno::NOENT),
        }
    }

    fn file_mut(&mut self, node: u64) -> Result<&mut File, Errno> {
        match self.nodes.get_mut(&node) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder(_)) => Err(Errno::ISDIR),
            None => Err(Errno::NOENT),
        }
    }

    pub(super) fn attributes(&self, node: u64) -> Result<Attributes, Errno> {
        match self.nodes.get(&node).ok_or(Errno::NOENT)? {
            Node::File(file) => {
                Ok(Attributes { node, is_folder: false, len: file.bytes.len() as u64 })
            }
            Node::Folder(_) => Ok(Attributes { node, is_folder: true, len: 0 }),
        }
    }

    pub(super) fn lookup(&self, parent: u64, name: &OsStr) -> Result<Attributes, Errno> {
        self.attributes(*self.folder(parent)?.entries.get(name).ok_or(Errno::NOENT)?)
    }

    /// Returns the names and attributes of the entries of a folder.
    pub(super) fn list(&self, folder: u64) -> Result<Vec<(OsString, Attributes)>, Errno> {
        let entries = self.folder(folder)?.entries.iter();
        entries.map(|(name, node)| Ok((name.clone(), self.attributes(*node)?))).collect()
    }

    /// Returns the bytes of all files that have a name.
    pub(super) fn used(&self) -> u64 {
        let folders = self.nodes.values().filter_map(|it| match it {
            Node::Folder(folder) => Some(folder),
            Node::File(_) => None,
        });
        let nodes = folders.flat_map(|it| it.entries.values());
        nodes.filter_map(|it| Some(self.attributes(*it).ok()?.len)).sum()
    }

    /// Changes the entries of folders, which a sync of these folders makes durable.
    fn change(&mut self, sets: Vec<(u64, OsString, Option<u64>)>) {
        for (parent, name, node) in &sets {
            if let Some(Node::Folder(folder)) = self.nodes.get_mut(parent) {
                Folder::set(&mut folder.entries, name, *node);
            }
        }
        self.changes.push(Change(sets));
    }

    fn make_durable(&mut self, change: Change) {
        for (parent, name, node) in change.0 {
            if let Some(Node::Folder(folder)) = self.nodes.get_mut(&parent) {
                Folder::set(&mut folder.durable, &name, node);
            }
        }
    }

    pub(super) fn create(
        &mut self,
        parent: u64,
        name: &OsStr,
        is_folder: bool,
    ) -> Result<Attributes, Errno> {
        if self.folder(parent)?.entries.contains_key(name) {
            return Err(Errno::EXIST);
        }
        let created =
            if is_folder { Node::Folder(Folder::default()) } else { Node::File(File::default()) };
        let node = self.next;
        self.next += 1;
        self.nodes.insert(node, created);
        self.change(vec![(parent, name.to_owned(), Some(node))]);
        self.attributes(node)
    }

    /// Removes a file, or a folder if it is empty.
    pub(super) fn remove(
        &mut self,
        parent: u64,
        name: &OsStr,
        is_folder: bool,
    ) -> Result<(), Errno> {
        let found = self.lookup(parent, name)?;
        match (is_folder, found.is_folder) {
            (true, false) => return Err(Errno::NOTDIR),
            (false, true) => return Err(Errno::ISDIR),
            (true, true) if !self.folder(found.node)?.entries.is_empty() => {
                return Err(Errno::NOTEMPTY);
            }
            _ => {}
        }
        self.change(vec![(parent, name.to_owned(), None)]);
        Ok(())
    }

    /// Renames an entry. A file with the new name is replaced.
    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> Result<(), Errno> {
        let moved = self.lookup(from.0, from.1)?;
        match self.lookup(to.0, to.1) {
            Ok(replaced) if replaced.node == moved.node => return Ok(()),
            Ok(replaced) if replaced.is_folder => return Err(Errno::EXIST),
            Ok(_) if moved.is_folder => return Err(Errno::NOTDIR),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        self.folder(to.0)?;
        let (from, to) = ((from.0, from.1.to_owned()), (to.0, to.1.to_owned()));
        self.change(vec![(from.0, from.1, None), (to.0, to.1, Some(moved.node))]);
        Ok(())
    }

    pub(super) fn read(&self, node: u64, offset: u64, len: usize) -> Result<&[u8], Errno> {
        let bytes = &self.file(node)?.bytes;
        let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        Ok(&bytes[begin..bytes.len().min(begin.saturating_add(len))])
    }

    pub(super) fn write(&mut self, node: u64, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let file = self.file_mut(node)?;
        let begin = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let end = begin.checked_add(data.len()).ok_or(Errno::FBIG)?;
        if end > file.bytes.len() {
            file.bytes.resize(end, 0);
        }
        file.bytes[begin..end].copy_from_slice(data);
        file.dirty.extend(begin / PAGE..end.div_ceil(PAGE));
        Ok(())
    }

    pub(super) fn set_len(&mut self, node: u64, len: u64) -> Result<Attributes, Errno> {
        let file = self.file_mut(node)?;
        let len = usize::try_from(len).map_err(|_| Errno::FBIG)?;
        let cut = len.min(file.bytes.len());
        // If the file grows again, these pages are zero.
        file.dirty.extend(cut / PAGE..file.bytes.len().max(len).div_ceil(PAGE));
        file.bytes.resize(len, 0);
        self.attributes(node)
    }

    /// Makes the contents of a file durable.
    pub(super) fn sync(&mut self, node: u64) -> Result<(), Errno> {
        if self.planted == Some(Planted::Syncs) {
            return Ok(());
        }
        let file = self.file_mut(node)?;
        file.durable.resize(file.bytes.len(), 0);
        for page in std::mem::take(&mut file.dirty) {
            let begin = page * PAGE;
            let end = file.bytes.len().min(begin + PAGE);
            if begin < end {
                file.durable[begin..end].copy_from_slice(&file.bytes[begin..end]);
            }
        }
        Ok(())
    }

    /// Fails a sync of a file, as Linux does: the pages stay readable, but no later sync writes them.
    pub(super) fn fail_sync(&mut self, node: u64) {
        if let Ok(file) = self.file_mut(node) {
            file.dirty.clear();
        }
    }

    /// Makes the entries of a folder durable.
    pub(super) fn sync_folder(&mut self, folder: u64) -> Result<(), Errno> {
        self.folder(folder)?;
        if self.planted == Some(Planted::FolderSyncs) {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.changes).into_iter();
        let (durable, changes): (Vec<_>, _) = changes.partition(|it| it.touches(folder));
        self.changes = changes;
        durable.into_iter().for_each(|it| self.make_durable(it));
        Ok(())
    }

    /// Loses data that was not synced.
    pub(super) fn lose_power(&mut self, loss: Loss, random: &mut fastrand::Rng) {
        let mut changes = std::mem::take(&mut self.changes);
        if loss == Loss::Some {
            changes.truncate(random.usize(..=changes.len()));
            changes.into_iter().for_each(|it| self.make_durable(it));
        }
        for node in self.nodes.values_mut() {
            match node {
                Node::File(file) => file.lose_power(loss, random),
                Node::Folder(folder) => folder.entries = folder.durable.clone(),
            }
        }
        self.forget_unreachable();
    }

    fn forget_unreachable(&mut self) {
        let (mut reached, mut waiting) = (BTreeSet::new(), vec![ROOT]);
        while let Some(node) = waiting.pop() {
            if reached.insert(node)
                && let Ok(folder) = self.folder(node)
            {
                waiting.extend(folder.entries.values());
            }
        }
        self.nodes.retain(|node, _| reached.contains(node));
    }
}

impl File {
    fn lose_power(&mut self, loss: Loss, random: &mut fastrand::Rng) {
        let dirty = std::mem::take(&mut self.dirty);
        if loss == Loss::Some {
            if random.bool() {
                self.durable.resize(self.bytes.len(), 0);
            }
            for page in dirty {
                let begin = page * PAGE;
                let written = match random.u8(..5) {
                    0 | 1 => 0,
                    2 | 3 => PAGE,
                    _ => SECTOR * random.usize(1..PAGE / SECTOR),
                };
                let end = self.bytes.len().min(self.durable.len()).min(begin + written);
                if begin < end {
                    self.durable[begin..end].copy_from_slice(&self.bytes[begin..end]);
                }
            }
        }
        self.bytes.clone_from(&self.durable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    fn lose(tree: &mut Tree) {
        tree.lose_power(Loss::Everything, &mut fastrand::Rng::with_seed(1));
    }

    /// Returns a tree with the durable file `file` that contains `old`, and the number of the file.
    fn with_file() -> (Tree, u64) {
        let mut tree = Tree::new();
        let node = tree.create(ROOT, name("file"), false).expect("the name is new").node;
        tree.write(node, 0, b"old").expect("the file exists");
        tree.sync(node).expect("the file exists");
        tree.sync_folder(ROOT).expect("the folder exists");
        (tree, node)
    }

    #[test]
    fn bytes_without_a_sync_are_lost() {
        let (mut tree, node) = with_file();
        tree.write(node, 0, b"newer").expect("the file exists");
        assert_eq!(tree.read(node, 0, 9), Ok(&b"newer"[..]));
        lose(&mut tree);
        assert_eq!(tree.read(node, 0, 9), Ok(&b"old"[..]));
    }

    #[test]
    fn entry_without_a_sync_of_its_folder_is_lost() {
        let (mut tree, _) = with_file();
        let folder = tree.create(ROOT, name("folder"), true).expect("the name is new").node;
        tree.create(folder, name("inner"), false).expect("the name is new");
        tree.sync_folder(folder).expect("the folder exists");
        assert_eq!(tree.list(ROOT).map(|it| it.len()), Ok(2));
        lose(&mut tree);
        assert_eq!(tree.list(ROOT).map(|it| it.len()), Ok(1));
        assert_eq!(tree.list(folder), Err(Errno::NOENT));
    }

    #[test]
    fn removal_and_renaming_need_a_sync_of_the_folder() {
        let (mut tree, _) = with_file();
        tree.rename((ROOT, name("file")), (ROOT, name("other"))).expect("the file exists");
        assert!(tree.lookup(ROOT, name("file")).is_err());
        lose(&mut tree);
        assert!(tree.lookup(ROOT, name("file")).is_ok());
        assert!(tree.lookup(ROOT, name("other")).is_err());
        tree.remove(ROOT, name("file"), false).expect("the file exists");
        tree.sync_folder(ROOT).expect("the folder exists");
        lose(&mut tree);
        assert_eq!(tree.list(ROOT), Ok(Vec::new()));
    }

    #[test]
    fn pages_of_a_failed_sync_are_not_written_later() {
        let (mut tree, node) = with_file();
        tree.write(node, 0, b"new").expect("the file exists");
        tree.fail_sync(node);
        tree.sync(node).expect("the file exists");
        assert_eq!(tree.read(node, 0, 3), Ok(&b"new"[..]));
        lose(&mut tree);
        assert_eq!(tree.read(node, 0, 3), Ok(&b"old"[..]));
    }

    #[test]
    fn file_that_was_cut_and_grew_again_is_zero() {
        let (mut tree, node) = with_file();
        tree.set_len(node, 0).expect("the file exists");
        tree.set_len(node, 2).expect("the file exists");
        tree.sync(node).expect("the file exists");
        lose(&mut tree);
        assert_eq!(tree.read(node, 0, 9), Ok(&[0, 0][..]));
    }

    #[test]
    fn pages_survive_at_random_and_in_part() {
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let mut tree = Tree::new();
            let node = tree.create(ROOT, name("file"), false).expect("the name is new").node;
            tree.sync_folder(ROOT).expect("the folder exists");
            tree.write(node, 0, &[1; 2 * PAGE]).expect("the file exists");
            tree.lose_power(Loss::Some, &mut fastrand::Rng::with_seed(seed));
            let bytes = tree.read(node, 0, 2 * PAGE).expect("the file exists");
            seen.insert(bytes.iter().map(|it| usize::from(*it)).sum::<usize>());
        }
        assert!(seen.contains(&0) && seen.contains(&(2 * PAGE)), "{seen:?}");
        assert!(seen.iter().any(|it| it % PAGE > 0 && it % SECTOR == 0), "{seen:?}");
    }
}
