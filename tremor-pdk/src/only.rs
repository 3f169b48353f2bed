//! Connectors for sources and sinks that are components without a connector.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    Component, ComponentContext, Connector, Halves, NoSink, NoSource, Result, Sides, Sink, Source,
    Value, config,
};

/// The connector that the kit creates for a source or a sink that is a component without a connector.
///
/// The first connection uses the instance that was created to check the configuration. Every later connection gets a
/// new instance.
pub(crate) struct Only<T, Side> {
    first: Option<T>,
    config: Value<'static>,
    context: ComponentContext,
    side: PhantomData<fn() -> Side>,
}

/// Marks the connector of a source.
pub(crate) enum IsSource {}

/// Marks the connector of a sink.
pub(crate) enum IsSink {}

impl<T: Component, Side: 'static> Component for Only<T, Side> {
    const NAME: &str = T::NAME;
    const DESCRIPTION: &str = T::DESCRIPTION;
    type Config = Unread<T::Config>;

    fn new(Unread(config, _): Unread<T::Config>, context: ComponentContext) -> Result<Self> {
        let first = Some(T::new(config::read(&config)?, context.clone())?);
        Ok(Self { first, config, context, side: PhantomData })
    }
}

impl<T: Component, Side> Only<T, Side> {
    fn next(&mut self) -> Result<T> {
        match self.first.take() {
            Some(first) => Ok(first),
            None => T::new(config::read(&self.config)?, self.context.clone()),
        }
    }
}

impl<T: Component + Source> Connector for Only<T, IsSource> {
    type Source = T;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<T, NoSink>> {
        self.next().map(Halves::source)
    }
}

impl<T: Component + Sink> Connector for Only<T, IsSink> {
    type Source = NoSource;
    type Sink = T;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, T>> {
        self.next().map(Halves::sink)
    }
}

// A configuration that is converted each time an instance is created. This comment is not a doc comment, because the
// schema is the schema of `C`, and would contain a doc comment of this type as its description.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(with = "C")]
pub(crate) struct Unread<C: JsonSchema>(Value<'static>, PhantomData<fn() -> C>);
