//! A plugin without a connector: the codec `logfmt` (`level=warn msg="disk full" attempts=3`), the
//! preprocessor and postprocessor `separated`, for records that something other than a line feed
//! ends, and the preprocessor `stack-traces`.

mod logfmt;
mod separated;
mod traces;

pub use crate::{
    logfmt::Logfmt,
    separated::{Separate, Split},
    traces::StackTraces,
};

tremor_pdk::export! {
    codecs: [Logfmt],
    splitters: [Split, StackTraces],
    postprocessors: [Separate],
}
