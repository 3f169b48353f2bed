//! The path of this program, which is also started as a child process to run the code of plugins in isolation.

use std::{env, ffi::OsString, io, path::PathBuf};

/// Returns the path of this program.
///
/// If the system does not know the path, because there is no `/proc`, returns the name by which the program was
/// started, or `tremor` if that is unknown too.
pub(super) fn own() -> PathBuf {
    known(env::current_exe(), env::args_os().next())
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
