//! Search for files: at the start, and for new, renamed and deleted files later.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use memchr::memmem;
use tremor_pdk::{Error, Result, debug, info, warn};

use super::{
    checkpoint::Entry,
    clock::nanoseconds,
    files::{Files, cannot_read, pause_ns},
    identity::{FileId, read_at},
    input::Input,
    names::originals,
    pattern::{Pattern, neighbours},
    predecessors::Predecessor,
    results::{Found, SearchResults, Snapshot, is_unknown},
};

/// Maximum number of last bytes of a file in which the end of the last whole message is searched, if
/// the file is read from its end.
const LAST_MESSAGE: u64 = 64 << 10;

/// Files of folders, with the identifier of each.
type Neighbours = HashMap<PathBuf, Vec<(FileId, PathBuf)>>;

/// Files that were deleted while the flow did not run, and that had unread bytes.
#[derive(Default)]
struct Lost(Vec<Deleted>);

struct Deleted {
    entry: Entry,
    /// `true` if a copy of the file can be recognised.
    is_remembered: bool,
}

/// Maximum number of lost files that a message names.
const NAMED: usize = 3;

/// Minimum time between two searches for the files of a pattern.
const SEARCH: Duration = Duration::from_secs(1);

impl Files {
    /// Finds the files that exist at the start, and the files that the last run has not read to
    /// their ends.
    pub(super) fn search_first(&mut self, path: &Path) -> Result<()> {
        let results = self.pattern.find();
        if let Some((path, error)) = results.errors.first()
            && (!self.options.follow || matches!(self.pattern, Pattern::One(_)))
        {
            return Err(cannot_read(path, error));
        }
        if results.files.is_empty() {
            let message = format!("there is no file `{}`", path.display());
            if !self.options.follow {
                return Err(Error::configuration(format!("{message}: correct `path`")));
            }
            info!(self.host, "{message} yet; waiting for it");
        }
        let now_ns = self.host.monotonic_ns();
        self.search_at_ns = now_ns + self.search_interval();
        self.apply_results(results, now_ns)
    }

    /// Adds the files that were found. The first call also continues where the last run ended:
    /// files that were renamed since are read to their ends. A missing file below a path that could
    /// not be checked keeps its position.
    fn apply_results(&mut self, results: SearchResults, now_ns: u64) -> Result<()> {
        self.is_full = false;
        if !self.unreadable.is_empty() {
            // A file that is closed is opened when it has new data, and not by searches.
            let is_closed = |it: &&Input| !it.is_open() && it.gone_since_ns.is_none();
            let closed = self.inputs.iter().filter(is_closed).map(|input| input.path.as_path());
            let closed: HashSet<_> = closed.collect();
            self.unreadable.begin(|path| closed.contains(path));
        }
        for (path, error) in &results.errors {
            self.unreadable.add(path, error);
        }
        if std::mem::take(&mut self.is_first_search) {
            let ids: HashSet<_> = results.files.iter().map(|found| found.file_id).collect();
            let known = std::mem::take(&mut self.known);
            let (here, elsewhere): (Vec<_>, Vec<_>) =
                known.into_iter().partition(|entry| ids.contains(&entry.identity.file_id()));
            self.known = here;
            let mut folders = Neighbours::new();
            let mut lost = Lost::default();
            for entry in elsewhere {
                if is_unknown(Path::new(&entry.path), &results.errors) {
                    self.known.push(entry);
                } else if self.pattern.matches(Path::new(&entry.path)) {
                    self.continue_renamed(entry, &mut folders, &mut lost, now_ns)?;
                } else {
                    let Entry { path, position, .. } = entry;
                    info!(
                        self.host,
                        "`{path}` no longer matches `path`: its position {position} is dropped"
                    );
                }
            }
            self.add_files(results.files, now_ns)?;
            self.report_lost(lost);
        } else {
            self.add_files(results.files, now_ns)?;
        }
        self.unreadable.end();
        self.starts_at_end = false;
        Ok(())
    }

    /// Logs a warning if bytes of deleted files are lost. Call this after files were added, because
    /// the copy of a deleted file has the bytes.
    fn report_lost(&self, Lost(mut lost): Lost) {
        lost.retain(|it| {
            let is_it = |other: &Predecessor| other.entry.identity == it.entry.identity;
            !it.is_remembered || self.predecessors.iter().any(is_it)
        });
        if lost.is_empty() {
            return;
        }
        let bytes = lost.iter().fold(0, |sum: u64, it| sum.saturating_add(it.entry.unread));
        let files = if lost.len() == 1 { "1 file" } else { &format!("{} files", lost.len()) };
        let named: Vec<_> =
            lost.iter().take(NAMED).map(|it| format!("`{}`", it.entry.path)).collect();
        let more = match lost.len() - named.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        warn!(
            self.host,
            "at least {bytes} bytes of {files} that no longer exist under any name in their folders were not \
             delivered: {}{more}; the bytes are lost, unless `path` matches copies of the files",
            named.join(", ")
        );
    }

    /// Searches for a file that the last run read and that was renamed since, and adds it under its
    /// old name if it has unread data. Adds a file that was deleted to `lost` if it had unread data.
    fn continue_renamed(
        &mut self,
        entry: Entry,
        folders: &mut Neighbours,
        lost: &mut Lost,
        now_ns: u64,
    ) -> Result<()> {
        let was = Path::new(&entry.path);
        let folder = was.parent().unwrap_or(was).to_owned();
        let files = folders.entry(folder).or_insert_with(|| neighbours(was));
        let is_it = |(file_id, path): &&(FileId, PathBuf)| {
            let same = || entry.is_of(&File::open(path)?);
            *file_id == entry.identity.file_id() && same().unwrap_or_default()
        };
        let Some((_, path)) = files.iter().find(is_it).cloned() else {
            if entry.unread == 0 {
                debug!(
                    self.host,
                    "`{}` no longer exists under any name in its folder; its {} bytes were delivered",
                    entry.path,
                    entry.position
                );
                self.remember_entry(entry, now_ns);
            } else {
                let is_remembered = self.remember_entry(entry.clone(), now_ns);
                lost.0.push(Deleted { entry, is_remembered });
            }
            return Ok(());
        };
        let cannot = |error| cannot_read(&path, &error);
        let file = Arc::new(File::open(&path).map_err(cannot)?);
        if file.metadata().map_err(cannot)?.len() > entry.position {
            let stream = self.new_stream();
            // Use the old name, so that the renamed file is read before the file that has this name
            // now.
            let name = PathBuf::from(&entry.path);
            let position = entry.position;
            let input = Input::new(stream, name, file, position, &self.options, &self.open);
            let mut input = input.map_err(cannot)?;
            input.restore(entry.skip, entry.ending);
            input.gone_since_ns = Some(now_ns);
            self.has_gone = true;
            info!(
                self.host,
                "`{}` was renamed to `{}`, and is read to its end",
                entry.path,
                path.display()
            );
            self.add_input(input, now_ns);
        }
        Ok(())
    }

    /// Detects new, renamed and deleted files. Each call performs a bounded part of the search;
    /// until the search has ended, further calls continue it. Files below a folder that cannot be
    /// read keep their state.
    pub(super) fn search(&mut self, now_ns: u64) -> Result<()> {
        let is_current = |it: &Snapshot| it.is_current(now_ns);
        let is_needed = !self.deferred.is_empty()
            || !self.unreadable.is_empty()
            || !self.snapshot.as_ref().is_some_and(is_current);
        if self.searching.is_none() && !is_needed {
            self.settle();
            self.search_at_ns = now_ns + self.search_interval();
            return Ok(());
        }
        let began_ns = *self.search_began_ns.get_or_insert(now_ns);
        let Some(mut results) = self.pattern.find_some(&mut self.searching) else { return Ok(()) };
        self.search_began_ns = None;
        self.snapshot = Snapshot::new(&results, now_ns);
        self.settle();
        self.add_deferred(&mut results.files);
        let found: HashMap<_, _> = results.files.iter().map(|it| (it.file_id, it)).collect();
        let count = self.inputs.len();
        for input in self.inputs.iter_mut().filter(|input| !input.is_released()) {
            match found.get(&input.file_id()) {
                Some(Found { path, stamp, .. }) => {
                    input.path.clone_from(path);
                    input.gone_since_ns = None;
                    // The search has checked the file, so that no other check is needed.
                    input.poll_at_ns = if input.is_read(stamp) {
                        let pause_ns = pause_ns(input, count, self.poll_ns, now_ns);
                        input.poll_at_ns.max(now_ns + pause_ns)
                    } else {
                        // A file that became shorter has lost the difference, which is not known yet.
                        input.length = input.length.max(stamp.0);
                        0
                    };
                }
                None if input.gone_since_ns.is_none()
                    && !is_unknown(&input.path, &results.errors) =>
                {
                    input.gone_since_ns = Some(now_ns);
                    // A renamed file may be compressed and deleted soon, so its last lines are read
                    // with the next poll.
                    input.poll_at_ns = 0;
                }
                None => {}
            }
        }
        self.has_gone = self.inputs.iter().any(|input| input.gone_since_ns.is_some());
        if !self.is_first_search {
            let before = self.known.len();
            self.known.retain(|it| {
                found.contains_key(&it.identity.file_id())
                    || is_unknown(Path::new(&it.path), &results.errors)
            });
            self.is_published &= self.known.len() == before;
            self.done.retain(|file_id, _| found.contains_key(file_id));
            self.deferred.retain(|file_id, _| found.contains_key(file_id));
        }
        self.search_at_ns = now_ns + self.search_interval();
        let applied = self.apply_results(results, now_ns);
        self.summary.clear();
        applied?;
        // Remove old predecessors only now, because one of the files may be the copy of the oldest
        // one.
        self.forget_predecessors(now_ns);
        // Searches take at most about a tenth of the time, also with many folders or copies.
        let end_ns = self.host.monotonic_ns();
        let took_ns = end_ns.saturating_sub(began_ns);
        self.search_at_ns = end_ns + self.search_interval().max(took_ns.saturating_mul(9));
        Ok(())
    }

    /// Adds the files that are not being read yet.
    fn add_files(&mut self, files: Vec<Found>, now_ns: u64) -> Result<()> {
        let inputs = self.inputs.iter().filter(|input| !input.is_released());
        let mut read: HashSet<_> = inputs.map(Input::file_id).collect();
        let known: HashSet<_> = self.known.iter().map(|it| it.identity.file_id()).collect();
        let is_new = |found: &Found| {
            let is_done = self.done.get(&found.file_id) == Some(&found.stamp);
            let is_old = || !known.contains(&found.file_id) && self.is_old(found);
            !is_done && !is_old() && read.insert(found.file_id)
        };
        let new = files.into_iter().filter(is_new).collect::<Vec<_>>().into_iter();
        // Add possible copies after the files that may be their originals.
        let (mut copies, others): (Vec<_>, Vec<_>) = new.partition(|found| {
            !known.contains(&found.file_id) && !originals(&found.path).is_empty()
        });
        for found in others {
            match self.add_file(&found, now_ns) {
                Ok(false) => copies.push(found),
                added => self.added(&found, added.map(|_| ()))?,
            }
        }
        if copies.is_empty() {
            return Ok(());
        }
        let mut by_name = self.by_name();
        for found in copies {
            let added = self.add_new_file(&found, &mut by_name, now_ns);
            self.added(&found, added)?;
        }
        Ok(())
    }

    /// Handles the result of the attempt to add a file. A file that cannot be opened is tried again by
    /// the next search if files are followed. Otherwise there is no further search, so the error is
    /// returned.
    fn added(
        &mut self,
        Found { path, file_id, stamp, .. }: &Found,
        added: io::Result<()>,
    ) -> Result<()> {
        match added {
            Ok(()) => {
                // The file was opened to determine its identity, and is reopened when it is read.
                if self.open.get() > self.max_open {
                    self.close_for_new();
                }
                self.reported.remove(path);
                self.unreadable.remove(path);
                Ok(())
            }
            // The file must change before it can be read, so it is not tried again before that.
            Err(error) if self.options.follow && error.kind() == io::ErrorKind::InvalidData => {
                self.done.insert(*file_id, *stamp);
                if self.reported.insert(path.clone()) {
                    let path = path.display();
                    warn!(
                        self.host,
                        "cannot read `{path}`: {error}; it is read once it has changed"
                    );
                }
                Ok(())
            }
            Err(error) if self.options.follow => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.unreadable.add(path, &error);
                }
                Ok(())
            }
            Err(error) => Err(cannot_read(path, &error)),
        }
    }

    /// Returns whether a file is too old to be read. A file that is read from its end is not too old.
    #[expect(
        clippy::disallowed_methods,
        reason = "the time is compared with times of the file system"
    )]
    fn is_old(&self, found: &Found) -> bool {
        let age = found.modified.and_then(|at| SystemTime::now().duration_since(at).ok());
        let limit = self.ignore_older.filter(|_| !self.starts_at_end);
        age.zip(limit).is_some_and(|(age, limit)| age > limit)
    }

    /// Adds a file that is not a copy. A file in the checkpoint is read from its stored position.
    /// Returns `false` if the file is not the known file with this inode, and may be a copy.
    pub(super) fn add_file(&mut self, found: &Found, now_ns: u64) -> io::Result<bool> {
        let path = &found.path;
        let file = self.open_found(found)?;
        let metadata = file.metadata()?;
        let is_it = |entry: &mut Entry| entry.identity.file_id() == found.file_id;
        let mut known: Vec<_> = self.known.extract_if(.., is_it).collect();
        // Several files may have had this inode. An entry of an empty file matches any of them.
        known.sort_by_key(|entry| std::cmp::Reverse(entry.identity.first_bytes()));
        let (mut entry, mut replaced) = (None, Vec::new());
        for other in known {
            let is_it = entry.is_none() && other.position <= metadata.len();
            if is_it && other.is_of(&file)? {
                entry = Some(other);
            } else {
                replaced.push(other);
            }
        }
        let is_replaced = entry.is_none() && !replaced.is_empty();
        for entry in replaced {
            self.remember_entry(entry, now_ns);
        }
        if is_replaced && !originals(path).is_empty() {
            return Ok(false);
        }
        if is_replaced {
            warn!(
                self.host,
                "`{}` was truncated or replaced since its position was saved: it is read from its start",
                path.display()
            );
        }
        let start = entry.as_ref().map_or(0, |entry| entry.position);
        let stream = self.new_stream();
        let path = path.clone();
        let mut input = Input::new(stream, path, file.clone(), start, &self.options, &self.open)?;
        if let Some(entry) = entry {
            input.restore(entry.skip, entry.ending);
        } else if self.starts_at_end {
            let end =
                if input.is_plain() { self.end_of(&file, input.length)? } else { input.length };
            input.start_at(end);
        }
        self.add_input(input, now_ns);
        self.save_soon();
        Ok(true)
    }

    /// Returns the position after the last whole message of a file of `length` bytes.
    fn end_of(&self, file: &File, length: u64) -> io::Result<u64> {
        let message_end = &self.options.message_end;
        let start = length.saturating_sub(LAST_MESSAGE);
        let mut last = vec![0; usize::try_from(length - start).unwrap_or_default()];
        let count = read_at(file, &mut last, start)?;
        let whole = memmem::rfind(&last[..count], message_end);
        Ok(whole.map_or(length, |at| start + (at + message_end.len()) as u64))
    }

    pub(super) fn search_interval(&self) -> u64 {
        match self.pattern {
            Pattern::One(_) => self.poll_ns,
            Pattern::Many(_) => self.poll_ns.max(nanoseconds(SEARCH)),
        }
    }
}
