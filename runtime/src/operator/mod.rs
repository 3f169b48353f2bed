//! Operators: what a pipeline does to events. Each is written as a plugin's operator is.

mod bounded;
mod bucket;
mod condition;
mod dedupe;
mod field;
mod filter;
mod key;
mod passthrough;
mod route;
mod select;
#[cfg(test)]
mod testing;
mod window;

pub(crate) use self::{
    bucket::Bucket, dedupe::Dedupe, filter::Filter, passthrough::Passthrough, route::Route,
    select::Select, window::Windows,
};
