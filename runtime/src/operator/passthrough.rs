//! The operator `passthrough`: hands events on as they are.

use tremor_pdk::{Batch, Host, NoConfig, Operator, OperatorPlugin, Output, Result};

pub(crate) struct Passthrough;

impl OperatorPlugin for Passthrough {
    const NAME: &'static str = "passthrough";
    type Config = NoConfig;

    fn new(_id: &str, _config: NoConfig, _host: Host) -> Result<Self> {
        Ok(Self)
    }
}

impl Operator for Passthrough {
    fn process(&mut self, _: &mut Batch, _: &mut Output) -> Result<()> {
        Ok(())
    }
}
