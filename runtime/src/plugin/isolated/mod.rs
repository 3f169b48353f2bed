//! Connectors whose plugins run in processes of their own, so that a crash of a plugin ends only its process.
//!
//! The runtime starts this program again with the hidden command [`COMMAND`]. The process loads one library, creates one
//! connector, and calls it as the runtime would. Messages go through a socket, and batches as frames through a file in
//! memory. `docs/isolation.md` describes the protocol, for processes in other languages as well. Plugins that are
//! executables always run so: the process limits itself, and then becomes their program.
//!
//! | module | responsibility |
//! |---|---|
//! | `message`, `body`, `memory` | the protocol, which both sides use |
//! | `subject` | the connector that a process runs, and its program |
//! | `check` | the question whether a configuration is valid |
//! | `connector`, `source`, `sink` | the trait objects that the engine calls |
//! | `link`, `process`, `group`, `stderr` | calls to a process, and its life |
//! | `child` | the process itself |

mod body;
mod check;
mod child;
mod connector;
mod group;
mod kept;
mod link;
mod memory;
mod message;
mod process;
mod sink;
mod source;
mod stderr;
mod subject;
#[cfg(test)]
mod tests;

pub(super) use self::check::check;
pub use self::child::{exec_main, process_main};
pub(crate) use self::connector::IsolatedFactory;

/// Hidden command of the binary.
const COMMAND: &str = "plugin-process";

/// Default of the maximum memory of a plugin's process, in bytes.
pub(crate) const MEMORY: u64 = 256 << 20;
