//! Log lines of a flow, which are bounded in number.

pub(crate) mod losses;
pub(crate) mod notices;
