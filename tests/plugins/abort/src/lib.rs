//! A plugin that the tests build with `-C panic=abort`, which cargo can do for one crate alone
//! only where no other test builds that crate without it.

use tremor_pdk::prelude::*;

/// Nothing to configure.
#[tremor_pdk::config]
pub struct Config {}

/// The connector, which is neither a source nor a sink.
pub struct Abort;

impl Component for Abort {
    const NAME: &str = "abort";
    type Config = Config;

    fn new(_config: Config, _context: Context) -> Result<Self> {
        Ok(Self)
    }
}

impl Connector for Abort {
    type Source = NoSource;
    type Sink = NoSink;
}

tremor_pdk::export! { connectors: [Abort] }
