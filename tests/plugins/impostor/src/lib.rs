//! A plugin whose connector has the name of another plugin's.

use tremor_pdk::prelude::*;

/// Nothing to configure.
#[tremor_pdk::config]
pub struct Config {}

/// The connector: a sink that takes everything.
pub struct Impostor;

impl Component for Impostor {
    const NAME: &str = "relay";
    type Config = Config;

    fn new(_config: Config, _context: Context) -> Result<Self> {
        Ok(Self)
    }
}

impl Connector for Impostor {
    type Source = NoSource;
    type Sink = Abyss;

    async fn create_sink(&mut self) -> Result<Option<Abyss>> {
        Ok(Some(Abyss))
    }
}

/// The second connector of this library, with a name of its own.
pub struct Unique;

impl Component for Unique {
    const NAME: &str = "unique";
    type Config = Config;

    fn new(_config: Config, _context: Context) -> Result<Self> {
        Ok(Self)
    }
}

impl Connector for Unique {
    const CODEC: CodecRequirement = CodecRequirement::Structured;
    type Source = NoSource;
    type Sink = Abyss;

    async fn create_sink(&mut self) -> Result<Option<Abyss>> {
        Ok(Some(Abyss))
    }
}

/// The sink.
pub struct Abyss;

impl Sink for Abyss {
    async fn deliver(&mut self, _batch: &Batch) -> Result<Delivery> {
        Ok(Delivery::done())
    }
}

tremor_pdk::export! { connectors: [Impostor, Unique] }
