//! The operator `passthrough`, which passes events unchanged.

use tremor_pdk::{Batch, Component, ComponentContext, NoConfig, Operator, Output, Result};

pub(crate) struct Passthrough;

impl Component for Passthrough {
    const NAME: &str = "passthrough";
    const STATELESS: bool = true;
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self)
    }
}

impl Operator for Passthrough {
    fn process(&mut self, _: &mut Batch, _: &mut Output) -> Result<()> {
        Ok(())
    }
}
