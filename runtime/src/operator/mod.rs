//! Built-in operators for pipelines, which implement the same traits as the operators of plugins.

mod bounded;
mod bucket;
mod condition;
mod dedupe;
mod filter;
mod key;
mod ordered;
mod passthrough;
mod route;
mod sample;
mod select;
mod set;
#[cfg(test)]
mod testing;
mod unnest;
mod window;

pub(crate) use self::{
    bucket::Bucket, dedupe::Dedupe, filter::Filter, passthrough::Passthrough, route::Route,
    sample::Sample, select::Select, set::Set, unnest::Unnest, window::Windows,
};
