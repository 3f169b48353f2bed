//! The file of this program, which is started again to run the code of plugins where it does no harm.

use std::{env, ffi::OsString, io, path::PathBuf};

/// The file. Where the system does not say, which without `/proc` it does not, what the program was
/// started as.
pub(super) fn own() -> PathBuf {
    known(env::current_exe(), env::args_os().next())
}

fn known(said: io::Result<PathBuf>, started_as: Option<OsString>) -> PathBuf {
    said.unwrap_or_else(|_| started_as.unwrap_or_else(|| "tremor".into()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_does_not_say_leaves_what_the_program_was_started_as() {
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
