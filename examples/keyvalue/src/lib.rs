//! A plugin without a connector. It contains the codec `keyvalue` (`level=warn msg="disk full" attempts=3`), the
//! preprocessor and postprocessor `separated` for records that end with a character other than a line feed, and the
//! preprocessor `stack-traces`.

mod keyvalue;
mod separated;
mod traces;

pub use crate::{
    keyvalue::KeyValue,
    separated::{Separate, Split},
    traces::StackTraces,
};

tremor_pdk::export! {
    codecs: [KeyValue],
    splitters: [Split, StackTraces],
    postprocessors: [Separate],
}
