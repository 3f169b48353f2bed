//! The preprocessor and the postprocessor `separated`.

use std::collections::HashMap;

use tremor_pdk::prelude::*;

/// What ends a record.
#[tremor_pdk::config]
pub struct Config {
    /// One character of ASCII.
    separator: char,
}

fn separator(config: &Config) -> Result<u8> {
    u8::try_from(config.separator).ok().filter(u8::is_ascii).ok_or_else(|| {
        Error::configuration(format!("`separator` is {:?}, expected ASCII", config.separator))
    })
}

/// Cuts streams where the separator stands.
pub struct Split {
    separator: u8,
    /// Records that have begun, by stream.
    begun: HashMap<u64, Vec<u8>>,
    /// What has come and is not cut yet.
    rest: Rest,
}

impl Component for Split {
    const NAME: &str = "separated";
    const DESCRIPTION: &str = "Cuts records that end with a separator.";
    type Config = Config;

    fn new(config: Config, _context: Context) -> Result<Self> {
        let separator = separator(&config)?;
        Ok(Self { separator, begun: HashMap::new(), rest: Rest::default() })
    }
}

impl Split {
    fn cut(&mut self, cutter: &mut Cutter<'_>) {
        let stream = cutter.event().stream;
        let mut head = self.begun.remove(&stream).unwrap_or_default();
        let mut start = 0;
        while let Some(length) =
            cutter.payload()[start..].iter().position(|byte| *byte == self.separator)
        {
            cutter.emit_joined(&head, start..start + length);
            head.clear();
            start += length + 1;
            if cutter.is_heavy() {
                // Enough for one batch: the rest comes again.
                return cutter.leave(start);
            }
        }
        head.extend_from_slice(&cutter.payload()[start..]);
        let ends = cutter.event().is_stream_end();
        let goes_on = cutter.event().is_fragment() && !ends;
        if !head.is_empty() && goes_on {
            self.begun.insert(stream, head);
        } else if !head.is_empty() && cutter.event().is_stream_aborted() {
            cutter.reject(&head, Error::connection_lost("the stream was cut off within a record"));
        } else if !head.is_empty() {
            cutter.emit_joined(&head, 0..0);
        }
        if ends {
            cutter.pass();
        }
    }
}

impl Preprocessor for Split {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let mut rest = std::mem::take(&mut self.rest);
        output.reject_all(rest.cut(batch, |cutter| self.cut(cutter)));
        self.rest = rest;
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.rest.is_empty()
    }

    fn streams(&self) -> Vec<u64> {
        self.begun.keys().copied().chain(self.rest.streams()).collect()
    }
}

/// Ends every record with the separator.
pub struct Separate([u8; 1]);

impl Component for Separate {
    const NAME: &str = "separated";
    const DESCRIPTION: &str = "Ends records with a separator.";
    type Config = Config;

    fn new(config: Config, _context: Context) -> Result<Self> {
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
