//! Sources and sinks that are components by themselves: the connectors that they are exported as.

use std::{borrow::Cow, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};

use crate::{Component, Connector, Context, NoSink, NoSource, Result, Sink, Source, Value, config};

/// The connector of a source or a sink without one. Its first connection has the instance that the
/// configuration was checked with, every other has an instance of its own.
pub(crate) struct Only<T, Side> {
    first: Option<T>,
    config: Value<'static>,
    context: Context,
    side: PhantomData<fn() -> Side>,
}

/// Says that the one side is a source.
pub(crate) enum IsSource {}

/// Says that the one side is a sink.
pub(crate) enum IsSink {}

impl<T: Component, Side: 'static> Component for Only<T, Side> {
    const NAME: &str = T::NAME;
    const DESCRIPTION: &str = T::DESCRIPTION;
    type Config = Unread<T::Config>;

    fn new(Unread(config, _): Unread<T::Config>, context: Context) -> Result<Self> {
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

    async fn create_source(&mut self) -> Result<Option<T>> {
        self.next().map(Some)
    }
}

impl<T: Component + Sink> Connector for Only<T, IsSink> {
    type Source = NoSource;
    type Sink = T;

    async fn create_sink(&mut self) -> Result<Option<T>> {
        self.next().map(Some)
    }
}

/// A configuration of this type that is read each time that it is used.
pub(crate) struct Unread<C>(Value<'static>, PhantomData<fn() -> C>);

impl<'de, C> Deserialize<'de> for Unread<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Value::deserialize(deserializer)?, PhantomData))
    }
}

impl<C: JsonSchema> JsonSchema for Unread<C> {
    fn schema_name() -> Cow<'static, str> {
        C::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        C::schema_id()
    }

    fn inline_schema() -> bool {
        C::inline_schema()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        C::json_schema(generator)
    }
}
