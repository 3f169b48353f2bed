//! The operator `passthrough`: hands events on as they are.

use schemars::JsonSchema;
use serde::Deserialize;
use tremor_pdk::{Batch, Operator, Output, Result};

use super::BuiltIn;

/// Hands events on as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "passthrough")]
pub(super) struct Config {}

pub(super) struct Passthrough;

impl BuiltIn for Passthrough {
    type Config = Config;
    const STATELESS: bool = true;

    fn new(_: Config) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Operator for Passthrough {
    fn process(&mut self, _: &mut Batch, _: &mut Output) -> Result<()> {
        Ok(())
    }
}
