//! A plugin whose connector has the name of another plugin's.

use tremor_pdk::prelude::*;

/// Nothing to configure.
#[tremor_pdk::config]
pub struct Config {}

/// The connector: a sink that takes everything.
pub struct Impostor;

impl Connector for Impostor {
    const NAME: &'static str = "relay";
    type Config = Config;
    type Source = NoSource;
    type Sink = Abyss;

    fn new(_id: &str, _config: Config, _host: Host) -> Result<Self> {
        Ok(Self)
    }

    async fn create_sink(&mut self) -> Result<Option<Abyss>> {
        Ok(Some(Abyss))
    }
}

/// The second connector of this library, with a name of its own.
pub struct Unique;

impl Connector for Unique {
    const NAME: &'static str = "unique";
    const CODEC: CodecRequirement = CodecRequirement::Structured;
    type Config = Config;
    type Source = NoSource;
    type Sink = Abyss;

    fn new(_id: &str, _config: Config, _host: Host) -> Result<Self> {
        Ok(Self)
    }

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
