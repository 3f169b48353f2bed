//! Servers for the comparison, which do the same work without this project.

pub(crate) mod bytes;
pub(crate) mod forward;
pub(crate) mod hello;
pub(crate) mod to_file;
