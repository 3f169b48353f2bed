//! Sources and sinks for files, folders and sockets, parts of which the pages of the documentation show.

pub mod ask;
pub mod forward;
pub mod letters;
pub mod listen;
pub mod mailbox;
pub mod objects;
pub mod read_once;
pub mod spool;

tremor_pdk::export! {
    connectors: [forward::Forward, letters::Letters, listen::Listen],
    sources: [mailbox::Mailbox, read_once::ReadOnce],
    sinks: [objects::Objects, spool::Spool],
}
