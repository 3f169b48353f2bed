//! Which files there are: at the beginning, and as they come, go and change their names.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tremor_pdk::{Error, LogLevel, Result, info, warn};

use super::{
    checkpoint::Entry,
    clock::nanoseconds,
    files::{Files, cannot_read},
    finds::{Finds, Found, is_unknown},
    identity::place,
    input::Input,
    pattern::{Pattern, renamed},
};

/// The least time from one search to the next, where the path is a pattern.
const SEARCH: Duration = Duration::from_secs(1);

impl Files {
    /// Finds the files that there are at the beginning, and those that the last run has not read to their
    /// ends.
    pub(super) fn search_first(&mut self, path: &Path) -> Result<()> {
        let finds = self.pattern.find();
        if let Some((path, error)) = finds.errors.first()
            && (!self.how.follow || matches!(self.pattern, Pattern::One(_)))
        {
            return Err(cannot_read(path, error));
        }
        if finds.files.is_empty() {
            let message = format!("there is no file `{}`", path.display());
            if !self.how.follow {
                return Err(Error::configuration(format!("{message}: correct `path`")));
            }
            info!(self.host, "{message} yet: it is waited for");
        }
        let now_ns = self.host.monotonic_ns();
        self.search_at_ns = now_ns + self.search_interval();
        self.take_stock(finds, now_ns)
    }

    /// Goes on with what the last run has read. Where files could not be looked at, the next search does
    /// that: until then, a file that is not there may be one of these.
    fn take_stock(&mut self, finds: Finds, now_ns: u64) -> Result<()> {
        for (path, error) in &finds.errors {
            self.tell(path, error);
        }
        if std::mem::take(&mut self.is_first_search) {
            let places: HashSet<_> = finds.files.iter().map(|found| found.place).collect();
            let known = std::mem::take(&mut self.known);
            let (here, elsewhere): (Vec<_>, Vec<_>) =
                known.into_iter().partition(|entry| places.contains(&entry.identity.place()));
            self.known = here;
            for entry in elsewhere {
                if is_unknown(Path::new(&entry.path), &finds.errors) {
                    self.known.push(entry);
                } else if self.pattern.fits(Path::new(&entry.path)) {
                    self.go_on_elsewhere(&entry, now_ns)?;
                } else {
                    let Entry { path, position, .. } = entry;
                    info!(
                        self.host,
                        "`{path}` is not asked for any more: its position {position} goes"
                    );
                }
            }
        }
        self.take_in(finds.files)
    }

    /// A file that the last run has read has another name by now, or is not there any more.
    fn go_on_elsewhere(&mut self, entry: &Entry, now_ns: u64) -> Result<()> {
        let is_it = |path: &Path, place| {
            let same = || entry.identity.is_of(&File::open(path)?);
            place == entry.identity.place() && same().unwrap_or_default()
        };
        let Some(path) = renamed(Path::new(&entry.path), is_it) else {
            warn!(
                self.host,
                "`{}` is gone, under any name in its folder: what it had after its first {} bytes, if \
                 anything, is lost",
                entry.path,
                entry.position
            );
            return Ok(());
        };
        let cannot = |error| cannot_read(&path, &error);
        let file = Arc::new(File::open(&path).map_err(cannot)?);
        if file.metadata().map_err(cannot)?.len() > entry.position {
            let stream = self.new_stream();
            // It comes before a file that has its name now.
            let name = PathBuf::from(&entry.path);
            let input = Input::new(stream, name, file, entry.position, &self.how);
            let mut input = input.map_err(cannot)?;
            input.gone_since_ns = Some(now_ns);
            info!(
                self.host,
                "`{}` is `{}` now, and is read to its end",
                entry.path,
                path.display()
            );
            self.inputs.push(input);
        }
        Ok(())
    }

    /// Finds out which files have come, which have other names and which have none. Does a bounded part of that: until
    /// the search has ended, further calls go on with it. Files below a folder that cannot be read are not judged.
    pub(super) fn search(&mut self, now_ns: u64) -> Result<()> {
        let began_ns = *self.search_began_ns.get_or_insert(now_ns);
        let Some(finds) = self.pattern.find_some(&mut self.searching) else { return Ok(()) };
        self.search_began_ns = None;
        self.settle();
        let found: HashMap<_, _> = finds.files.iter().map(|it| (it.place, &it.path)).collect();
        for input in &mut self.inputs {
            match found.get(&input.place()) {
                Some(path) => {
                    input.path.clone_from(path);
                    input.gone_since_ns = None;
                }
                None if !is_unknown(&input.path, &finds.errors) => {
                    input.gone_since_ns.get_or_insert(now_ns);
                }
                None => {}
            }
        }
        if !self.is_first_search {
            self.known.retain(|it| {
                found.contains_key(&it.identity.place())
                    || is_unknown(Path::new(&it.path), &finds.errors)
            });
        }
        // A search of many folders takes a tenth of the time at most.
        let took_ns = now_ns.saturating_sub(began_ns);
        self.search_at_ns = now_ns + self.search_interval().max(took_ns.saturating_mul(9));
        self.take_stock(finds, now_ns)
    }

    /// Opens the files that are not known yet. One that cannot be opened is tried again, if files are
    /// followed: without that there is no second search.
    fn take_in(&mut self, files: Vec<Found>) -> Result<()> {
        let mut open = self.count_open();
        let mut read: HashSet<_> = self.inputs.iter().map(Input::place).collect();
        for Found { path, place } in files {
            if !read.insert(place) {
                continue;
            }
            match self.take_in_one(&path) {
                Ok(()) => {
                    // It was opened to tell it from others, and is opened again when it has its turn.
                    match self.inputs.last_mut() {
                        Some(input) if open >= self.max_open => input.close(),
                        _ => open += 1,
                    }
                    self.told.remove(&path);
                }
                Err(error) if self.how.follow => self.tell(&path, &error),
                Err(error) => return Err(cannot_read(&path, &error)),
            }
        }
        Ok(())
    }

    fn take_in_one(&mut self, path: &Path) -> io::Result<()> {
        let file = Arc::new(File::open(path)?);
        let place = place(&file.metadata()?);
        let mut start = 0;
        if let Some(at) = self.known.iter().position(|entry| entry.identity.place() == place) {
            let entry = self.known.swap_remove(at);
            if entry.identity.is_of(&file)? && entry.position <= file.metadata()?.len() {
                start = entry.position;
            } else {
                warn!(
                    self.host,
                    "`{}` is not what was read of it before: it was truncated, or is another file, \
                     and is read from its start",
                    path.display()
                );
            }
        }
        let stream = self.new_stream();
        let input = Input::new(stream, path.to_owned(), file, start, &self.how)?;
        self.inputs.push(input);
        self.keep_soon();
        Ok(())
    }

    pub(super) fn search_interval(&self) -> u64 {
        match self.pattern {
            Pattern::One(_) => self.poll_ns,
            Pattern::Many(_) => self.poll_ns.max(nanoseconds(SEARCH)),
        }
    }

    fn tell(&mut self, path: &Path, error: &io::Error) {
        if self.told.insert(path.to_owned()) {
            let message = format!("cannot read `{}`: {error}; it is tried again", path.display());
            self.host.log(LogLevel::WARN, &message);
        }
    }
}
