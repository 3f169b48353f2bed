//! The folder `tests` of a package, which has the files of several test programs.

use std::collections::BTreeSet;

use super::Sources;
use crate::packages::{Package, Target};

/// The parts of the folder that a target of the package reads.
pub(super) struct Tests<'s> {
    target: &'s Target,
    /// Path of the folder, with a slash at the end.
    folder: String,
    /// Names of the parts of the folder that other test programs read, and this target does not.
    others: BTreeSet<String>,
}

impl<'s> Tests<'s> {
    pub(super) fn new(sources: &Sources, package: &Package, target: &'s Target) -> Self {
        let folder = format!("{}tests/", package.folder());
        let mut tests = Self { target, folder, others: BTreeSet::new() };
        let files: Vec<_> = sources.own_files(package).collect();
        let own = files.iter().filter(|file| tests.is_own(file));
        let texts: Vec<_> = own.map(|file| sources.text(file)).collect();
        let is_program = |part: &str| {
            package.targets.iter().any(|target| target.kind == "test" && target.name == part)
        };
        // A test program names the folders that it shares with others in the paths of modules.
        let is_shared = |part: &str| texts.iter().any(|text| text.contains(&format!("{part}/")));
        let parts = files.iter().filter(|file| !tests.is_own(file)).filter_map(|it| tests.part(it));
        let others = parts.filter(|part| is_program(part) || !is_shared(part));
        tests.others = others.map(str::to_owned).collect();
        tests
    }

    /// Returns whether only other targets read a file.
    pub(super) fn is_of_another(&self, file: &str) -> bool {
        self.part(file).is_some_and(|part| self.others.contains(part))
    }

    /// Returns whether the string literals of a file of the package may name inputs of the target.
    pub(super) fn may_name_inputs(&self, file: &str) -> bool {
        let is_of_tests = self.part(file).is_some() && !self.is_of_another(file);
        self.is_own(file) || is_of_tests
    }

    /// Returns whether the target alone has a file: the source of a library or program, or the code of a test program.
    fn is_own(&self, file: &str) -> bool {
        match self.part(file) {
            Some(part) => self.target.kind == "test" && self.target.name == part,
            None => self.target.kind != "test",
        }
    }

    /// Returns the name of the part of the folder with a file: the name of a test program or of a shared folder.
    fn part<'f>(&self, file: &'f str) -> Option<&'f str> {
        file.strip_prefix(&self.folder)?.split(['/', '.']).next()
    }
}
