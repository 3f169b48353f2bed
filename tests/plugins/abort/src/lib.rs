//! A plugin that the tests build with `-C panic=abort`, which cargo can do for one crate alone
//! only where no other test builds that crate without it.

use tremor_pdk::prelude::*;

/// Nothing to configure.
#[tremor_pdk::config]
pub struct Config {}

/// The connector, which is neither a source nor a sink.
pub struct Abort;

impl Connector for Abort {
    const NAME: &'static str = "abort";
    type Config = Config;
    type Source = NoSource;
    type Sink = NoSink;

    fn new(_id: &str, _config: Config, _host: Host) -> Result<Self> {
        Ok(Self)
    }
}

tremor_pdk::export! { connectors: [Abort] }
