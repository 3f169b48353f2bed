//! Who else could change a library: their code would run in this process.
//!
//! What is looked at: owner and mode of the library, of its folder, and of the folder in which a link
//! to it lies; and whether everybody may write to any folder on the way there from the root. Lists of
//! access rights beyond the mode are not.

use std::{fmt, fs, os::unix::fs::MetadataExt, path::Path};

const STICKY: u32 = 0o1000;
const GROUP: u32 = 0o020;
const OTHERS: u32 = 0o002;

/// Something that speaks against running a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    message: String,
    pub(super) help: String,
    /// Everybody could change the library, not only some.
    pub(super) is_grave: bool,
}

/// What is wrong, with the file or folder.
impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The worst that there is to object to a library, if anything. `path` is as it was given,
/// `canonical` the same without links.
pub(super) fn objection(path: &Path, canonical: &Path) -> Option<Objection> {
    let user = rustix::process::geteuid().as_raw();
    // Who can put another link there chooses the library.
    let linked = path.parent().filter(|_| path != canonical).and_then(|it| it.canonicalize().ok());
    let linked = linked.as_deref().filter(|folder| Some(*folder) != canonical.parent());
    let folders = canonical.parent().into_iter().chain(linked).flat_map(|folder| {
        folder.ancestors().filter_map(move |place| Place::at(place, place == folder))
    });
    let objections =
        folders.chain(Place::at(canonical, true)).filter_map(|place| place.objection(user));
    // Of several as grave the first: a folder says it for all libraries in it.
    objections.reduce(|first, next| if next.is_grave && !first.is_grave { next } else { first })
}

/// A file or folder that has a say in which code is run.
struct Place<'p> {
    path: &'p Path,
    mode: u32,
    owner: u32,
    /// The library or its folder, and not one further up.
    is_near: bool,
}

impl<'p> Place<'p> {
    /// None where the file is gone: to open it fails.
    fn at(path: &'p Path, is_near: bool) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        // In a sticky folder, what belongs to one user is not replaced by another.
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

    use super::Place;

    #[test]
    fn who_else_may_write_is_objected_to_and_everybody_is_the_worst() {
        const USER: u32 = 1000;
        // Mode, owner, whether it is near; whether there is an objection, and a grave one.
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
            let place = Place { path: Path::new("/x"), mode, owner, is_near };
            let said = place.objection(USER);
            let told = format!("{mode:o} {owner} {is_near}: {said:?}");
            assert_eq!(said.map(|it| it.is_grave), expected, "{told}");
        }
    }

    #[test]
    fn root_trusts_root_alone() {
        let place = Place { path: Path::new("/x"), mode: 0o644, owner: 1000, is_near: true };
        assert!(place.objection(0).is_some_and(|it| it.to_string().contains("user 1000")));
    }
}
