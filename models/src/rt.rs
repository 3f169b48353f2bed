//! The model checker: loom, or Miri, which runs the threads of the standard library and observes
//! every access to memory.

#[cfg(not(miri))]
mod loom;
#[cfg(miri)]
mod miri;

#[cfg(not(miri))]
pub(crate) use self::loom::*;
#[cfg(miri)]
pub(crate) use self::miri::*;
