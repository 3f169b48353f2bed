//! Log lines of a flow whose number is limited.

pub(crate) mod losses;
pub(crate) mod notices;
