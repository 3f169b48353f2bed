//! Checks which other users could change a library, because the code of such a user would run in this process.
//!
//! The check covers the owner and the mode of the library, of its folder, and of the folder that contains a symbolic
//! link to the library. It also covers whether everybody may write to a folder on the path from the root. Access
//! control lists beyond the mode are not checked.

use std::{fmt, fs, os::unix::fs::MetadataExt, path::Path};

const STICKY: u32 = 0o1000;
const GROUP: u32 = 0o020;
const OTHERS: u32 = 0o002;

/// Reason not to run a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    message: String,
    pub(super) help: String,
    /// `true` if everybody could change the library, not only some users.
    pub(super) is_grave: bool,
}

/// Displays what is wrong with the file or folder.
impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Returns the most serious objection to a library, if there is any.
///
/// `path` is the path as it was given, and `canonical` the same path without symbolic links.
pub(super) fn objection(path: &Path, canonical: &Path) -> Option<Objection> {
    let user = rustix::process::geteuid().as_raw();
    // A user who can replace the symbolic link can choose the library.
    let linked = path.parent().filter(|_| path != canonical).and_then(|it| it.canonicalize().ok());
    let linked = linked.as_deref().filter(|folder| Some(*folder) != canonical.parent());
    let folders = canonical.parent().into_iter().chain(linked).flat_map(|folder| {
        folder.ancestors().filter_map(move |checked| CheckedPath::at(checked, checked == folder))
    });
    let objections = folders
        .chain(CheckedPath::at(canonical, true))
        .filter_map(|checked| checked.objection(user));
    // If several objections are equally serious, the first one is returned: an objection to a folder applies to all
    // libraries in the folder.
    objections.reduce(|first, next| if next.is_grave && !first.is_grave { next } else { first })
}

/// A file or folder whose owner and writers decide which code runs.
struct CheckedPath<'p> {
    path: &'p Path,
    mode: u32,
    owner: u32,
    /// `true` for the library and its folder, `false` for folders further up.
    is_near: bool,
}

impl<'p> CheckedPath<'p> {
    /// Returns `None` if the file does not exist any more. Opening the library then fails.
    fn at(path: &'p Path, is_near: bool) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        // In a sticky folder, a user cannot replace files of another user.
        let is_sticky = about.is_dir() && about.mode() & STICKY != 0;
        let mode = if is_sticky { 0 } else { about.mode() };
        Some(Self { path, mode, owner: about.uid(), is_near })
    }

    fn objection(&self, user: u32) -> Option<Objection> {
        let path = self.path.display();
        let (message, help) = if self.mode & OTHERS != 0 {
            (format!("everybody may write to {path}"), format!("`chmod o-w {path}`"))
        } else if self.is_near && self.mode & GROUP != 0 {
            (format!("a group may write to {path}"), format!("`chmod g-w {path}`"))
        } else if self.is_near && ![0, user].contains(&self.owner) {
            let owner = self.owner;
            let message =
                format!("{path} belongs to user {owner}, and this process to user {user}");
            (message, format!("`chown {user} {path}`"))
        } else {
            return None;
        };
        Some(Objection { message, help, is_grave: self.mode & OTHERS != 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::CheckedPath;

    #[test]
    fn write_access_of_others_is_an_objection() {
        const USER: u32 = 1000;
        // Mode, owner and `is_near` of a file. The last value is `None` if there is no objection, and otherwise whether
        // the objection is grave.
        for (mode, owner, is_near, expected) in [
            (0o644, USER, true, None),
            (0o755, 0, true, None),
            (0o664, USER, true, Some(false)),
            (0o664, USER, false, None),
            (0o646, USER, true, Some(true)),
            (0o777, 0, false, Some(true)),
            (0o644, 1001, true, Some(false)),
            (0o644, 1001, false, None),
        ] {
            let checked = CheckedPath { path: Path::new("/x"), mode, owner, is_near };
            let objection = checked.objection(USER);
            let shown = format!("{mode:o} {owner} {is_near}: {objection:?}");
            assert_eq!(objection.map(|it| it.is_grave), expected, "{shown}");
        }
    }

    #[test]
    fn root_trusts_only_files_of_root() {
        let checked =
            CheckedPath { path: Path::new("/x"), mode: 0o644, owner: 1000, is_near: true };
        assert!(checked.objection(0).is_some_and(|it| it.to_string().contains("user 1000")));
    }
}
