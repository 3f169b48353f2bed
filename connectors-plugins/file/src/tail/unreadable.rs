//! Paths that exist but cannot be read at the moment.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use tremor_pdk::{Error, Host, Problem, info, warn};

use crate::{Mode, open::cannot_open};

/// Maximum number of paths that a description names.
const NAMED: usize = 3;

/// The files and folders that exist but cannot be read at the moment. While there are any, the source has a problem.
pub(super) struct Unreadable {
    host: Host,
    problem: Problem,
    paths: BTreeMap<PathBuf, Failure>,
}

struct Failure {
    error: Error,
    /// `false` if the current search has not found yet that the path cannot be read.
    is_current: bool,
}

impl Unreadable {
    pub(super) fn new(host: &Host) -> Self {
        Self { problem: host.problem("files"), host: host.clone(), paths: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Begins to apply the results of a search. `is_kept` returns whether a path is not checked by searches.
    pub(super) fn begin(&mut self, is_kept: impl Fn(&Path) -> bool) {
        for (path, failure) in &mut self.paths {
            failure.is_current = is_kept(path);
        }
    }

    /// Ends the results of a search: a path that the search has not reported again can be read, or is gone.
    pub(super) fn end(&mut self) {
        let Self { host, paths, .. } = self;
        paths.retain(|path, failure| {
            if !failure.is_current {
                info!(host, "`{}` can be read again, or is gone", path.display());
            }
            failure.is_current
        });
        self.report();
    }

    /// Adds a path that cannot be read.
    pub(super) fn add(&mut self, path: &Path, error: &io::Error) {
        let error = cannot_open(path, Mode::Read, error);
        if !self.paths.contains_key(path) {
            warn!(self.host, "{error}; retrying");
        }
        self.paths.insert(path.to_owned(), Failure { error, is_current: true });
        self.report();
    }

    /// Removes a path that was read.
    pub(super) fn remove(&mut self, path: &Path) {
        if !self.paths.is_empty() && self.paths.remove(path).is_some() {
            info!(self.host, "`{}` can be read again", path.display());
            self.report();
        }
    }

    fn report(&self) {
        let mut paths = self.paths.iter();
        let Some((_, Failure { error, .. })) = paths.next() else { return self.problem.clear() };
        if paths.len() == 0 {
            return self.problem.set(error);
        }
        let more = paths.len();
        let named: Vec<_> =
            paths.take(NAMED - 1).map(|(path, _)| format!("`{}`", path.display())).collect();
        let others = if more > named.len() { ", …" } else { "" };
        let others = format!("{more} more cannot be read: {}{others}", named.join(", "));
        self.problem.set(&Error::new(error.kind(), format_args!("{error}; {others}")));
    }
}
