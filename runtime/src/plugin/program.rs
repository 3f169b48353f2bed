//! This program, which is also started as a child process to run the code of plugins in isolation.

use std::{env, ffi::OsString, io, path::PathBuf, sync::OnceLock};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, set_parent_process_death_signal},
};

/// Makes the system kill this process when its parent ends, for example because of a signal. Otherwise a child in which
/// a plugin hangs would stay, because only its parent has the time limit. Returns `false` if the parent has ended
/// already.
///
/// Call this first in a child, before any code of a plugin.
pub(super) fn end_with_parent() -> bool {
    // If the system does not support this, the child ends at the limit, unless its parent ends before.
    _ = set_parent_process_death_signal(Some(Signal::KILL));
    // Only the parent has the other end of standard output, which it closes when it ends.
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::OUT)];
    let is_known = poll(&mut polled, Some(&Timespec::default())).is_ok();
    !is_known || !polled[0].revents().contains(PollFlags::ERR)
}

/// Returns the path of this program at the first call. Later, the system may report that the file was deleted.
///
/// If the system does not know the path, because there is no `/proc`, returns the name by which the program was
/// started, or `tremor` if that is unknown too.
pub(super) fn own() -> PathBuf {
    static OWN: OnceLock<PathBuf> = OnceLock::new();
    OWN.get_or_init(|| known(env::current_exe(), env::args_os().next())).clone()
}

fn known(reported: io::Result<PathBuf>, started_as: Option<OsString>) -> PathBuf {
    reported.unwrap_or_else(|_| started_as.unwrap_or_else(|| "tremor".into()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_path_falls_back_to_name_of_program() {
        let unknown = || Err(io::ErrorKind::NotFound.into());
        let named = Some("/opt/bin/tremor".into());
        assert_eq!(
            known(Ok("/usr/bin/tremor".into()), named.clone()),
            PathBuf::from("/usr/bin/tremor")
        );
        assert_eq!(known(unknown(), named), PathBuf::from("/opt/bin/tremor"));
        assert_eq!(known(unknown(), None), PathBuf::from("tremor"));
    }
}
