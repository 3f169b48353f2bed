//! Codecs of sinks whose templates read fields of events. Encoded events have no fields, so the encoder adds the values
//! to the metadata of the messages.

use std::sync::Arc;

use serde_json::Value as Config;
use tremor_abi::batch::{Pool, Rejected};
use tremor_pdk::{Batch, Result, lock, template::TemplateFields};

use super::Components;
use crate::{
    codec::{BatchDecoder, BatchEncoder, MakeCodec, Terminator},
    flow::{self, Flow, Kind, Lookup, Resolver},
};

/// Codec whose encoders add fields of the events to the metadata of the messages.
pub(super) struct CarryingCodec {
    pub(super) codec: Box<dyn MakeCodec>,
    pub(super) fields: Arc<TemplateFields>,
}

struct CarryingEncoder {
    encoder: Box<dyn BatchEncoder>,
    fields: Arc<TemplateFields>,
}

impl MakeCodec for CarryingCodec {
    fn decoder(&self) -> Result<Box<dyn BatchDecoder>> {
        self.codec.decoder()
    }

    fn encoder(&self) -> Result<Box<dyn BatchEncoder>> {
        let encoder = self.codec.encoder()?;
        Ok(Box::new(CarryingEncoder { encoder, fields: self.fields.clone() }))
    }

    fn is_best_on_one_core(&self) -> bool {
        self.codec.is_best_on_one_core()
    }
}

impl BatchEncoder for CarryingEncoder {
    fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>) {
        let (mut encoded, rejected) = self.encoder.encode_batch(batch, pool, terminator);
        self.fields.carry(&mut encoded, batch, pool);
        (encoded, rejected)
    }
}

impl Components {
    /// Returns the fields of events that the templates in the configuration of a connector read, or `None` if they read
    /// none. Most connectors have no template, and for these the schema is not read.
    pub(super) fn template_fields(
        &self,
        connector: &flow::Connector,
    ) -> Option<Arc<TemplateFields>> {
        let (name, config) = (&connector.component.name.value, connector.component.config.value());
        if !has_braces(config) {
            return None;
        }
        let known = (name.clone(), config.to_string());
        if let Some(fields) = lock(&self.templates).get(&known) {
            return fields.clone();
        }
        let fields = match self.find(Kind::Connector, name) {
            Lookup::Known { schema: Some(schema) } => TemplateFields::of_config(&schema, config),
            _ => None,
        };
        let fields = fields.map(Arc::new);
        lock(&self.templates).insert(known, fields.clone());
        fields
    }

    /// Returns whether the templates of a connector of `flow` read the same fields as those of the connector with the same
    /// name in `earlier`.
    pub(crate) fn carries_same(
        &self,
        connector: &str,
        flow: &Flow,
        earlier: (&Self, &Flow),
    ) -> bool {
        let fields = |components: &Self, flow: &Flow| {
            let mut connectors = flow.spec.connectors.iter();
            components.template_fields(connectors.find(|it| it.name.value == connector)?)
        };
        fields(self, flow) == fields(earlier.0, earlier.1)
    }
}

/// Returns whether a text of a configuration contains a brace.
fn has_braces(config: &Config) -> bool {
    match config {
        Config::String(text) => text.contains('{'),
        Config::Array(items) => items.iter().any(has_braces),
        Config::Object(pairs) => pairs.values().any(has_braces),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tremor_abi::batch::Pool;
    use tremor_pdk::{Batch, literal};

    use super::{CarryingCodec, MakeCodec, TemplateFields, Terminator};
    use crate::components::codec;

    #[test]
    fn encoder_adds_fields_and_the_decoder_does_not() {
        let schema = json!({ "properties": { "path": { "format": "template" } } });
        let fields = TemplateFields::of_config(&schema, &json!({ "path": "{a}/{b:-x}" })).unwrap();
        for (name, texts) in [
            ("json", [r#"{"a":1}"#, r#"{"a":"x","b":[1]}"#]),
            ("string", ["one", "two"]),
            ("binary", ["one", "two"]),
        ] {
            let codec = Box::new(codec(name, &json!(null)).unwrap());
            let codec = CarryingCodec { codec, fields: fields.clone().into() };
            let mut batch = Batch::new();
            texts.iter().for_each(|text| batch.push_message(text.as_bytes()));
            batch.last_mut().unwrap().set_metadata(literal!({ "file": "f" }));
            let decoded = codec.decoder().unwrap().decode_batch(&mut batch);
            assert!(decoded.rejected.is_empty());
            let (encoded, rejected) = codec.encoder().unwrap().encode_batch(
                &mut batch,
                &Pool::new(1),
                &Terminator::default(),
            );
            assert!(rejected.is_empty());
            let messages: Vec<_> = encoded.iter().map(|event| event.raw().unwrap()).collect();
            assert_eq!(messages, texts.map(str::as_bytes));
            let metadata = |batch: &Batch| -> Vec<String> {
                let text = |it: tremor_pdk::ValueRef<'_>| it.to_string();
                batch.iter().map(|it| it.metadata().map(text).unwrap_or_default()).collect()
            };
            let expected = match name {
                "json" => {
                    [r#"{"template":{"a":1}}"#, r#"{"file":"f","template":{"a":"x","b":[]}}"#]
                }
                _ => [r#"{"template":{}}"#, r#"{"file":"f","template":{}}"#],
            };
            assert_eq!(metadata(&encoded), expected, "{name}");
            assert_eq!(metadata(&batch), ["", r#"{"file":"f"}"#], "{name}");
        }
    }
}
