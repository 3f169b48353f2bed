//! The host's side of plugins: finds libraries, checks them without running their code, loads them, and calls them.
//!
//! A library passes through these stages, each with errors of its own:
//! 1. [`Registry::scan`] and [`Library::inspect`] read files and run none of their code.
//! 2. [`Library::check`] compares the metadata with the requirements of this host, and checks whether other users
//!    could change the library.
//! 3. [`load`] opens the library, which runs its initialisers, and compares the layout of every type of the plugin
//!    ABI. Only then does it call functions that the plugin's author wrote.
//! 4. [`ConnectorFactory`] and [`ComponentFactory`] create instances with plain Rust types.
//!
//! [`Describer`] asks a plugin about its configuration in a child process, so that this process need not load the
//! library.
//!
//! `IsolatedFactory` creates connectors that run in child processes, instead of stages 3 and 4. Plugins that are
//! executables run only there: their stage 1 reads a manifest.
//!
//! A loaded library stays loaded until the process ends.
//!
//! This is the only module of the runtime that uses FFI-safe types.

#[cfg(not(any(
    all(target_os = "linux", target_env = "gnu"),
    target_os = "macos",
    all(target_os = "windows", target_env = "msvc"),
)))]
compile_error!(
    "the dynamic loader of this platform is not known to be thread-safe, and plugins are loaded while \
     threads run: build for Linux with glibc, for macOS, or for Windows with MSVC"
);

mod access;
mod check;
mod claims;
mod component;
mod connector;
mod contain;
mod describe;
mod error;
mod executable;
mod host;
mod identity;
mod image;
mod isolated;
mod jobs;

mod layout;
mod library;
mod load;
mod log_lines;
mod metrics;
mod open;
mod program;
mod registry;
mod services;
mod stream;
mod verify;

pub(crate) use self::describe::Question;
pub(crate) use self::isolated::{IsolatedFactory, MEMORY as ISOLATED_MEMORY};
pub(crate) use self::jobs::Jobs;
#[cfg(test)]
pub(crate) use self::metrics::Number;
pub use self::{
    access::Objection,
    check::Policy,
    component::ComponentFactory,
    connector::{ConnectorFactory, InstanceInfo},
    describe::{COMMAND as DESCRIBE_COMMAND, Describer, describe_main},
    error::{Error, ErrorKind},
    host::{HostContext, InstanceHost},
    isolated::{exec_main, process_main},
    library::{ContentHash, Library},
    load::{Plugin, load},
    metrics::{Metric, MetricKind, Metrics},
    registry::{Problem, Registry, SearchPath},
    services::HostServices,
    verify::{Configurations, Verification, Verified, verify, verify_main},
};
pub use tremor_abi::metadata::{ArtefactMetadata, Metadata};
pub use tremor_pdk::testing::conformance::{NO_EVENT, UNCONNECTED};
