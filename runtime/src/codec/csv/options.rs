//! How records are read and written.

/// How records are read and written. See the [module](super) for what each means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What stands between two fields. ASCII.
    pub delimiter: u8,
    /// What stands around fields. ASCII.
    pub quote: Option<u8>,
    /// The names of the fields; none for arrays.
    pub headers: Option<Vec<String>>,
    /// Whether fields without quotes may be numbers.
    pub numbers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { delimiter: b',', quote: Some(b'"'), headers: None, numbers: false }
    }
}

impl Options {
    /// Says what is wrong with them together.
    pub(in crate::codec) fn check(&self) -> Result<(), String> {
        for (name, byte) in [("delimiter", Some(self.delimiter)), ("quote", self.quote)] {
            if let Some(byte @ (b'\r' | b'\n')) = byte {
                return Err(format!(
                    "`{name}` must not be {:?}, which ends a line",
                    char::from(byte)
                ));
            }
        }
        if self.quote == Some(self.delimiter) {
            return Err("`delimiter` and `quote` must differ".into());
        }
        let Some(headers) = &self.headers else { return Ok(()) };
        if headers.is_empty() {
            return Err("`headers` is empty: name the fields, or leave it out for arrays".into());
        }
        let twice = (1..headers.len()).find(|at| headers[..*at].contains(&headers[*at]));
        match twice {
            Some(at) => Err(format!("`headers` has {:?} twice", headers[at])),
            None => Ok(()),
        }
    }
}
