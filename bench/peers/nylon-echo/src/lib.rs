//! A plugin for nylon-ring that returns each payload, as in the documentation of nylon-ring.

use nylon_ring::{Plugin, Reply, Session, export_plugin};

struct Echo;

impl Plugin for Echo {
    type Ctx = ();
    const ENTRIES: &'static [&'static str] = &["echo"];

    fn new() -> Self {
        Self
    }

    fn new_ctx(&self) -> Self::Ctx {}

    fn on_call(&self, session: &mut Session<'_>, _context: &mut Self::Ctx) -> Reply {
        Reply::Bytes(session.payload().to_vec())
    }
}

export_plugin!(Echo);
