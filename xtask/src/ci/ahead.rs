//! The build of the demo while the tests run. Most tests wait for a process, and the processors have nothing
//! to do meanwhile; to build the demo takes minutes of them.

use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};

use super::logged;
use crate::demo;
use crate::project::root;

/// A build that goes on beside the steps. The step that needs it waits for it, since cargo does, and says
/// what is wrong where it has failed: it builds again.
pub(super) struct Build(Option<Child>);

impl Build {
    /// Begins with it, with the lowest priority: steps do not wait for the processor because of it. Where
    /// there is no `nice`, nothing is built ahead.
    pub(super) fn begin() -> Self {
        Self(begin().inspect_err(|error| eprintln!("nothing is built ahead: {error}")).ok())
    }
}

fn begin() -> io::Result<Child> {
    let log = File::create(root().join(logged::FOLDER).join("demo-ahead.log"))?;
    let build = demo::build_command();
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(build.get_program()).args(build.get_args());
    command.current_dir(root()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
}

impl Drop for Build {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.as_mut().map(Child::wait) {
            eprintln!("cannot wait for the build of the demo: {error}");
        }
    }
}
