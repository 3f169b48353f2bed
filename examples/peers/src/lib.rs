//! Sources and sinks of real peers, as the pages of the book show them.

pub mod ask;
pub mod forward;
pub mod listen;
pub mod mailbox;
pub mod objects;
pub mod read_once;
pub mod spool;

tremor_pdk::export! {
    connectors: [forward::Forward, listen::Listen],
    sources: [mailbox::Mailbox, read_once::ReadOnce],
    sinks: [objects::Objects, spool::Spool],
}
