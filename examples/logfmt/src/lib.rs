//! A plugin without a connector: the codec `logfmt` (`level=warn msg="disk full" attempts=3`), and
//! the preprocessor and postprocessor `separated`, for records that something other than a line
//! feed ends.

mod logfmt;
mod separated;

pub use crate::{
    logfmt::Logfmt,
    separated::{Separate, Split},
};

tremor_pdk::export! {
    codecs: [Logfmt],
    preprocessors: [Split],
    postprocessors: [Separate],
}
