//! The preprocessor and the postprocessor `separated`.

use tremor_pdk::prelude::*;

/// Configuration of the preprocessor and the postprocessor.
#[tremor_pdk::config]
pub struct Config {
    /// ASCII character that ends each record.
    separator: char,
}

fn separator(config: &Config) -> Result<u8> {
    u8::try_from(config.separator).ok().filter(u8::is_ascii).ok_or_else(|| {
        Error::configuration(format!("`separator` is {:?}, expected ASCII", config.separator))
    })
}

/// Splits streams into records at each separator. Bytes after the last separator are a record as well.
pub struct Split {
    separator: u8,
}

impl Component for Split {
    const NAME: &str = "separated";
    const DESCRIPTION: &str = "Cuts records that end with a separator.";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { separator: separator(&config)? })
    }
}

impl StreamSplitter for Split {
    type State = ();

    fn next(&mut self, _state: &mut (), input: Input<'_>) -> Result<Found> {
        Ok(match input.find(self.separator) {
            Some(end) => Found::message(0..end, end + 1),
            None if input.is_end() => Found::message(0..input.len(), input.len()),
            None => Found::More,
        })
    }
}

/// Adds the separator to the end of each record.
pub struct Separate([u8; 1]);

impl Component for Separate {
    const NAME: &str = "separated";
    const DESCRIPTION: &str = "Ends records with a separator.";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self([separator(&config)?]))
    }
}

impl Postprocessor for Separate {
    fn suffix(&self) -> Option<&[u8]> {
        Some(&self.0)
    }

    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.reject_all(batch.cut(|cutter| cutter.emit_followed(&self.0)));
        Ok(())
    }
}
