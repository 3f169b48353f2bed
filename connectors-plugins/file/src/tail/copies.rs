//! Copies of files that were read: a copy that a tool makes before it truncates or compresses a log
//! file is not read again.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tremor_pdk::info;

use super::{
    checkpoint::Entry,
    files::Files,
    identity::{Ending, FIRST_BYTES, file_id, first},
    input::{Input, unsupported},
    names::{keys, originals},
    packed,
    pattern::Pattern,
    predecessors::{Deferral, Predecessor},
    results::{Found, stamp},
    settle::entry,
};
use crate::compression::{Detected, MAGIC_BYTES};

/// Time for which a predecessor is remembered, in ns. Compressing a large file takes minutes.
const REMEMBERED_NS: u64 = 600_000_000_000;

/// Maximum number of predecessors that are remembered.
const MAX_PREDECESSORS: usize = 1_024;

/// Time without a change after which a possible copy of a file that still exists is read as a
/// separate file, in ns.
const COPYING_NS: u64 = 5_000_000_000;

/// Maximum time for which a plain file that keeps changing is treated as a possible copy, in ns.
const MAX_COPYING_NS: u64 = 60_000_000_000;

/// Result of the search for the file that a new file is a copy of.
enum Original {
    None,
    /// The new file may be a copy of a file that still exists: decide later. `is_held` is set if that file is open, so
    /// that the copy is not needed.
    Later {
        is_held: bool,
    },
    /// Index of the predecessor, the position from which the copy is read, and hashes of the bytes
    /// before that.
    Is(usize, u64, Vec<Ending>),
}

/// Start of a new file.
struct Start {
    first: Vec<u8>,
    file: Arc<File>,
    is_compressed: bool,
}

impl Files {
    /// Returns whether copies are recognised: a single path has no copies.
    fn has_copies(&self) -> bool {
        matches!(self.pattern, Pattern::Many(_))
    }

    /// Remembers the contents of a file that no longer has them. Returns whether a copy of the
    /// contents could be recognised.
    pub(super) fn remember_input(&mut self, at: usize, now_ns: u64) -> bool {
        let input = &self.inputs[at];
        let is_remembered = self.has_copies() && input.is_plain() && input.whole_to() > 0;
        if is_remembered {
            let read = (input.whole_to(), input.ending);
            let entry = Entry { earlier: input.earlier.clone(), ..entry(input) };
            self.remember(Some(input.stream), entry, read, now_ns);
        }
        is_remembered
    }

    /// Remembers the contents of a file of which only the checkpoint has a position. Returns whether
    /// a copy of the contents could be recognised.
    pub(super) fn remember_entry(&mut self, entry: Entry, now_ns: u64) -> bool {
        let read = (entry.position, entry.ending);
        entry.skip == 0 && self.remember(None, entry, read, now_ns)
    }

    /// Remembers the contents of the file of `entry`, which was read up to the position in `read`.
    /// Returns whether a copy of the contents could be recognised. The bytes after that position do
    /// not count as unread any more, because their loss is reported only once.
    pub(super) fn remember(
        &mut self,
        stream: Option<u64>,
        mut entry: Entry,
        read: (u64, Option<Ending>),
        since_ns: u64,
    ) -> bool {
        let is_remembered = self.has_copies() && read.0 > 0;
        if is_remembered {
            entry.unread = read.0.saturating_sub(entry.position);
            self.predecessors.push(Predecessor { stream, entry, read, since_ns });
            self.is_published = false;
        }
        is_remembered
    }

    /// Removes predecessors whose copies will not be found any more. Keeps those with events that
    /// the sinks have not answered, because the time counts from the answers.
    pub(super) fn forget_predecessors(&mut self, now_ns: u64) {
        let excess = self.predecessors.len().saturating_sub(MAX_PREDECESSORS);
        let mut count = 0;
        let mut forgotten = Vec::new();
        let Self { predecessors, positions, .. } = self;
        predecessors.retain_mut(|it| {
            count += 1;
            let tracked = positions.as_ref().zip(it.stream);
            let is_in_flight = tracked.is_some_and(|(all, stream)| !all.is_settled(stream));
            if is_in_flight {
                it.since_ns = now_ns;
            }
            let is_recent = now_ns.saturating_sub(it.since_ns) < REMEMBERED_NS;
            let is_kept = is_in_flight || (count > excess && is_recent);
            if !is_kept {
                forgotten.push(it.stream);
            }
            is_kept
        });
        self.is_published &= forgotten.is_empty();
        self.forgotten.extend(forgotten.into_iter().flatten());
    }

    /// Returns the files that may be originals of copies, by the keys of their names.
    pub(super) fn by_name(&self) -> ByName {
        let mut by_name = ByName::default();
        let ByName { streams, predecessors } = &mut by_name;
        // Without `follow` a copy cannot be made while its original is read.
        if self.options.follow && self.has_copies() {
            for input in &self.inputs {
                keys(&input.path)
                    .for_each(|key| streams.entry(key).or_default().push(input.stream));
            }
        }
        for (at, it) in self.predecessors.iter().enumerate() {
            keys(Path::new(&it.entry.path))
                .for_each(|key| predecessors.entry(key).or_default().push(at));
        }
        by_name
    }

    /// Adds a file that was found and that is not known by its inode. A copy of a file that was
    /// read is read from the position up to which that file was read.
    pub(super) fn add_new_file(
        &mut self,
        found: &Found,
        by_name: &mut ByName,
        now_ns: u64,
    ) -> io::Result<()> {
        // In a first search that starts at the ends of files, nothing was read yet, so there is no
        // original. A file that is deferred would be read from its start later.
        let original = if self.starts_at_end {
            Original::None
        } else {
            self.original(found, by_name, now_ns)?
        };
        match original {
            Original::None => {
                let added = self.add_file(found, now_ns);
                self.deferred.remove(&found.file_id);
                added.map(|_| ())
            }
            Original::Later { is_held: true } => {
                self.deferral(found, now_ns).file = None;
                Ok(())
            }
            Original::Later { is_held: false } => {
                self.hold(found, now_ns);
                Ok(())
            }
            Original::Is(at, position, endings) => {
                let file = self.open_found(found)?;
                let stream = self.new_stream();
                let path = found.path.clone();
                let mut input = Input::new(stream, path, file, 0, &self.options, &self.open)?;
                let Predecessor { stream: was, entry, .. } = self.predecessors.remove(at);
                by_name.remove_predecessor(at);
                let original = entry.path;
                self.deferred.remove(&found.file_id);
                info!(
                    self.host,
                    "`{}` is a copy of `{original}`, and is read from byte {position} of its contents",
                    found.path.display()
                );
                input.continue_copy(position, endings);
                self.add_input(input, now_ns);
                self.forgotten.extend(was);
                self.save_soon();
                Ok(())
            }
        }
    }

    /// Searches for the file that `found` is a copy of.
    fn original(&mut self, found: &Found, by_name: &ByName, now_ns: u64) -> io::Result<Original> {
        let names = originals(&found.path);
        let inputs: HashSet<u64> =
            names.iter().filter_map(|name| by_name.streams.get(name)).flatten().copied().collect();
        let predecessors = names.iter().filter_map(|name| by_name.predecessors.get(name));
        let predecessors: BTreeSet<usize> = predecessors.flatten().copied().collect();
        if inputs.is_empty() && predecessors.is_empty() {
            return Ok(Original::None);
        }
        let Some(start) = self.start(&found.path, self.open_found(found)?)? else {
            return Ok(self.later(found, now_ns, false));
        };
        let mut longest = None;
        for at in predecessors {
            let Some(it) = self.predecessors.get(at) else { continue };
            if !it.entry.identity.is_start(&start.first) {
                continue;
            }
            let mut is_settled = true;
            let (position, ending) = match (&self.positions, it.stream) {
                (Some(positions), Some(stream)) if positions.is_settled(stream) => {
                    let entry = positions.entry(stream, it.entry.clone());
                    (entry.position, entry.ending)
                }
                (positions, stream) => {
                    is_settled = positions.is_none() || stream.is_none();
                    it.read
                }
            };
            let mut endings = it.entry.earlier.clone();
            endings.retain(|ending| ending.position < position);
            endings.extend(ending.filter(|ending| ending.position == position));
            let hashed = it.entry.identity.first_bytes();
            let Some(position) = start.copied(position, &endings, hashed)? else { continue };
            // Wait until the sinks have answered: the copy has the only bytes that could be
            // delivered again.
            if !is_settled {
                return Ok(Original::Later { is_held: false });
            }
            if longest.as_ref().is_none_or(|(_, most, _)| *most < position) {
                endings.retain(|ending| ending.position <= position);
                longest = Some((at, position, endings));
            }
        }
        if let Some((at, position, endings)) = longest {
            return Ok(Original::Is(at, position, endings));
        }
        let is_plain = !start.is_compressed;
        let (mut is_possible, mut is_ending, mut is_held) = (false, false, true);
        for original in &mut self.inputs {
            if !inputs.contains(&original.stream) || original.is_compressed() {
                continue;
            }
            // The file may have been empty at the last check.
            let _ = original.grow();
            if !original.identity.is_start(&start.first) {
                continue;
            }
            // A silent file is polled rarely, but the truncation after a copy has to be detected
            // soon.
            original.poll_at_ns = 0;
            match original.intact_length().unwrap_or_default() {
                // A copy is not longer than its original. The length of `found` was read first, so the
                // original cannot have been shorter at that time.
                Some(length) if is_plain && found.stamp.0 > length => {}
                Some(_) if original.gone_since_ns.is_none() => is_possible = true,
                // The original becomes a predecessor when it was read to its end, or when its next
                // read shows that it was truncated.
                length => {
                    is_ending = true;
                    is_held &= length.is_some() && original.is_open();
                }
            }
        }
        if is_ending {
            let deferred_ns = now_ns.saturating_sub(self.deferral(found, now_ns).since_ns);
            let is_over = is_plain && deferred_ns >= REMEMBERED_NS;
            return Ok(if is_over { Original::None } else { Original::Later { is_held } });
        }
        Ok(if is_possible { self.later(found, now_ns, is_plain) } else { Original::None })
    }

    /// Decides whether to wait before the file `found` is treated as a file of its own. Returns [`Original::Later`] while
    /// the file changes and for some seconds after that, and otherwise [`Original::None`]. Without `follow`, always
    /// returns [`Original::None`]. For a plain file the wait is limited, because a log file that is being written looks
    /// the same.
    fn later(&mut self, found: &Found, now_ns: u64, is_plain: bool) -> Original {
        let is_followed = self.options.follow;
        let deferral = self.deferral(found, now_ns);
        let is_unchanged = now_ns.saturating_sub(deferral.changed_at_ns) >= COPYING_NS;
        let is_late = is_plain && now_ns.saturating_sub(deferral.since_ns) >= MAX_COPYING_NS;
        let is_over = !is_followed || is_unchanged || is_late;
        if is_over { Original::None } else { Original::Later { is_held: false } }
    }

    /// Returns the state of the file `found`, which is not read yet.
    fn deferral(&mut self, found: &Found, now_ns: u64) -> &mut Deferral {
        let Found { file_id: id, stamp, path, .. } = found;
        let deferral = self.deferred.entry(*id).or_insert_with(|| Deferral::new(found, now_ns));
        if deferral.stamp != *stamp {
            (deferral.stamp, deferral.changed_at_ns) = (*stamp, now_ns);
        }
        deferral.path.clone_from(path);
        deferral
    }

    /// Opens a deferred file, so that it can be read even if it is deleted before it is known whether it is a copy.
    fn hold(&mut self, found: &Found, now_ns: u64) {
        if self.deferral(found, now_ns).file.is_some() || !self.has_capacity() {
            return;
        }
        // The next search tries again.
        let Ok(file) = File::open(&found.path) else { return };
        if file.metadata().is_ok_and(|it| file_id(&it) == found.file_id) {
            let open = self.open.open(file.into());
            self.deferral(found, now_ns).file = Some(open);
        }
    }

    /// Opens a file that was found. The file of a deferral is open, and may have no name any more.
    pub(super) fn open_found(&self, found: &Found) -> io::Result<Arc<File>> {
        let held = self.deferred.get(&found.file_id).and_then(|it| it.file.as_ref());
        held.map_or_else(|| File::open(&found.path).map(Arc::new), |open| Ok(open.file().clone()))
    }

    /// Adds the deferred files that are open and that the search has not found, because they were deleted.
    pub(super) fn add_deferred(&self, files: &mut Vec<Found>) {
        let found: HashSet<_> = files.iter().map(|it| it.file_id).collect();
        let deferred = self.deferred.iter().filter(|(file_id, _)| !found.contains(file_id));
        files.extend(deferred.filter_map(|(file_id, it)| {
            let stamp = stamp(&it.file.as_ref()?.file().metadata().ok()?);
            Some(Found { path: it.path.clone(), file_id: *file_id, stamp, modified: it.modified })
        }));
    }

    /// Returns whether a copy of a file was found that begins with the same bytes.
    pub(super) fn has_copy(&self, original: &Input) -> bool {
        let is_copy = |path: &Path, file: &Arc<File>| {
            let names = originals(path);
            let start = || self.start(path, file.clone()).ok().flatten();
            keys(&original.path).any(|key| names.contains(&key))
                && start().is_some_and(|start| original.identity.is_start(&start.first))
        };
        let deferred = self.deferred.values();
        let deferred = deferred.filter_map(|it| Some((&it.path, it.file.as_ref()?.file())));
        let inputs = self.inputs.iter().filter(|it| it.stream != original.stream);
        let inputs = inputs.filter_map(|it| Some((&it.path, it.file()?)));
        self.has_copies() && deferred.chain(inputs).any(|(path, file)| is_copy(path, file))
    }

    /// Reads the first bytes of the contents of a file. Returns `None` if the file is too short, for
    /// example because it is still being compressed.
    fn start(&self, path: &Path, file: Arc<File>) -> io::Result<Option<Start>> {
        let magic = first(&file, MAGIC_BYTES as u64)?;
        match self.options.compression.detect(path, &magic, false) {
            Detected::Plain => {
                let first = first(&file, FIRST_BYTES)?;
                Ok(Some(Start { first, file, is_compressed: false }))
            }
            Detected::Compressed(format) => {
                let Ok(first) = packed::first_bytes(&file, format) else { return Ok(None) };
                Ok(Some(Start { first, file, is_compressed: true }))
            }
            Detected::Unsupported(name) => Err(unsupported(name)),
            Detected::Unknown => Ok(None),
        }
    }
}

impl Start {
    /// Returns the position from which the file is read if it is a copy of a file that was read up to
    /// `position`. The copy may be shorter, because the original may have grown after it was copied.
    ///
    /// The answer is preliminary for a compressed file that is longer than its first bytes: the bytes
    /// before the position are compared when it is read.
    fn copied(&self, position: u64, endings: &[Ending], hashed: u64) -> io::Result<Option<u64>> {
        let is_short = position <= hashed;
        if position == 0 || (endings.is_empty() && !is_short) {
            return Ok(None);
        }
        if self.is_compressed {
            return Ok(Some(position));
        }
        let end = self.file.metadata()?.len().min(position);
        let is_copy = match endings.iter().rfind(|ending| ending.position <= end) {
            Some(ending) => ending.is_of(&self.file)?,
            None => is_short && end == position,
        };
        Ok(is_copy.then_some(end))
    }
}

/// Files that may be originals of copies, by the keys of their names.
#[derive(Default)]
pub(super) struct ByName {
    /// Streams of followed files.
    streams: HashMap<PathBuf, Vec<u64>>,
    /// Indices of predecessors.
    predecessors: HashMap<PathBuf, Vec<usize>>,
}

impl ByName {
    /// Removes the predecessor with the index `removed`; the indices of later ones decrease.
    fn remove_predecessor(&mut self, removed: usize) {
        for indices in self.predecessors.values_mut() {
            indices.retain(|at| *at != removed);
            indices.iter_mut().filter(|at| **at > removed).for_each(|at| *at -= 1);
        }
    }
}
