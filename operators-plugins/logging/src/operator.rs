//! The operator that applies the rules to batches.

use tremor_pdk::{EventMut, NoConfig, prelude::*};

use super::classify::{Classification, classify};

/// Writes the classification of each event to its metadata.
#[derive(Debug, Default)]
pub struct Logging {
    /// The `dimensions` of the current event. The buffer is reused for its capacity.
    dimensions: String,
}

impl Logging {
    fn annotate(&mut self, event: &mut EventMut<'_>) -> Verdict {
        let Some(value) = event.value() else {
            return match event.get().raw() {
                Some(_) => Verdict::Reject(Error::bad_data(
                    "the event is bytes that no codec has decoded: give its connector a `codec`",
                )),
                None => Verdict::Keep,
            };
        };
        let Classification { class, rate, dimensions } = classify(value);
        // Copy the text, because it lies in the buffer to which the metadata is written.
        self.dimensions.clear();
        self.dimensions.push_str(dimensions.unwrap_or_default());
        let dimensions = dimensions.is_some().then_some(self.dimensions.as_str());
        let written = event.extend_metadata(|writer| {
            writer.key("class");
            writer.str(class);
            writer.key("rate");
            writer.i64(rate);
            writer.key("dimensions");
            match dimensions {
                Some(text) => writer.str(text),
                None => writer.null(),
            }
        });
        written.map_or_else(Verdict::Reject, |()| Verdict::Keep)
    }
}

impl Operator for Logging {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| self.annotate(event));
        Ok(())
    }
}

impl Component for Logging {
    const NAME: &str = "logging";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    const STATELESS: bool = true;
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self::default())
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Batch, EventRef, Operator, Output, literal};

    use super::Logging;

    fn metadata(batch: &mut Batch) -> Vec<String> {
        let mut output = Output::new();
        Logging::default().process(batch, &mut output).unwrap();
        assert!(output.rejected().is_empty());
        let text = |event: EventRef<'_>| event.metadata().map(|found| found.to_string());
        batch.iter().map(|event| text(event).unwrap_or_default()).collect()
    }

    #[test]
    fn result_is_in_the_metadata_and_the_event_is_unchanged() {
        let mut batch = Batch::new();
        let event = literal!({ "index_type": "applog_app6", "logger_name": "log\"ger" });
        batch.push(&event).unwrap();
        batch.push(&1).unwrap();
        assert_eq!(
            metadata(&mut batch),
            [
                r#"{"class":"applog_app6","rate":4500,"dimensions":"log\"ger"}"#,
                r#"{"class":"default","rate":250,"dimensions":null}"#,
            ]
        );
        assert_eq!(batch.first().unwrap().value().unwrap().to_value(), event);
    }

    #[test]
    fn other_metadata_is_unchanged() {
        let mut batch = Batch::new();
        batch.push(&literal!({ "application": "app4" })).unwrap();
        batch.last_mut().unwrap().set_metadata(literal!({ "from": "here", "class": "none" }));
        batch.push(&literal!({ "application": "app4" })).unwrap();
        batch.last_mut().unwrap().set_metadata(literal!("no object"));
        assert_eq!(
            metadata(&mut batch),
            [
                r#"{"from":"here","class":"applog_app1","rate":750,"dimensions":"app4"}"#,
                r#"{"class":"applog_app1","rate":750,"dimensions":"app4"}"#,
            ]
        );
    }

    #[test]
    fn undecoded_event_is_rejected() {
        let mut batch = Batch::new();
        batch.push_message(b"{}");
        let mut output = Output::new();
        Logging::default().process(&mut batch, &mut output).unwrap();
        assert!(batch.is_empty());
        assert!(output.rejected()[0].error.to_string().contains("`codec`"));
    }
}
