//! Decoding of records.

use tremor_abi::document::{Exact, Writer, is_json_number};

use super::{Options, is_blank};
use crate::codec::{
    Error,
    copied::{signature_of, text},
    limit,
};

/// Decodes a record and writes its value.
pub(in crate::codec) fn decode(
    options: &Options,
    message: &[u8],
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    if is_blank(message) {
        return Err(Error::bad_data_at(0, "expected a record, found an empty line"));
    }
    let text = text(message)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let at = signature_of(message) as usize;
    let mut record = Record { options, text, at, ended: false };
    let mut unescaped = String::new();
    let Some(headers) = &options.headers else {
        writer.begin_array();
        while let Some(field) = record.next()? {
            field.write(options, &mut unescaped, writer);
            limit::admit(message.len(), writer.nodes())?;
        }
        writer.end_array();
        return Ok(());
    };
    writer.begin_object();
    let mut count = 0;
    while let Some(field) = record.next()? {
        if let Some(header) = headers.get(count) {
            writer.key(header);
            field.write(options, &mut unescaped, writer);
        }
        count += 1;
    }
    if count != headers.len() {
        let message = format!("expected {} fields, found {count}", headers.len());
        return Err(Error::bad_data_at(record.at, message));
    }
    writer.end_object();
    Ok(())
}

struct Record<'r> {
    options: &'r Options,
    text: &'r str,
    at: usize,
    ended: bool,
}

/// A field as it is written in the record, without its quotation marks.
struct Field<'r> {
    text: &'r str,
    quoted: bool,
}

impl<'r> Record<'r> {
    fn next(&mut self) -> Result<Option<Field<'r>>, Error> {
        if self.ended {
            return Ok(None);
        }
        let rest = &self.text.as_bytes()[self.at..];
        let quote = self.options.quote.filter(|quote| rest.first() == Some(quote));
        let field = if let Some(quote) = quote {
            self.quoted(quote)?
        } else {
            let ends = |byte: &u8| *byte == self.options.delimiter || b"\r\n".contains(byte);
            let length = rest.iter().position(ends).unwrap_or(rest.len());
            let text = &self.text[self.at..self.at + length];
            self.at += length;
            Field { text, quoted: false }
        };
        match self.text.as_bytes().get(self.at) {
            None => self.ended = true,
            Some(byte) if *byte == self.options.delimiter => self.at += 1,
            Some(b'\r' | b'\n') if !field.quoted => {
                return Err(Error::bad_data_at(
                    self.at,
                    "expected one record, found a second line",
                ));
            }
            Some(_) => {
                return Err(Error::bad_data_at(
                    self.at,
                    "expected a delimiter or the end after a field in quotes",
                ));
            }
        }
        Ok(Some(field))
    }

    fn quoted(&mut self, quote: u8) -> Result<Field<'r>, Error> {
        let (bytes, start) = (self.text.as_bytes(), self.at + 1);
        let mut at = start;
        loop {
            match memchr::memchr(quote, &bytes[at..]) {
                None => {
                    let message = "unterminated quoted field";
                    return Err(Error::bad_data_at(self.at, message));
                }
                Some(length) if bytes.get(at + length + 1) == Some(&quote) => at += length + 2,
                Some(length) => {
                    self.at = at + length + 1;
                    return Ok(Field { text: &self.text[start..at + length], quoted: true });
                }
            }
        }
    }
}

impl Field<'_> {
    fn write(&self, options: &Options, unescaped: &mut String, writer: &mut Writer<'_>) {
        if !self.quoted {
            return if options.numbers { number(self.text, writer) } else { writer.str(self.text) };
        }
        let quote = options.quote.map_or('"', char::from);
        if !self.text.contains(quote) {
            return writer.str(self.text);
        }
        // In a quoted field, every quotation mark is doubled, so splitting at quotation marks yields an empty part for
        // each pair.
        unescaped.clear();
        for (index, part) in self.text.split(quote).enumerate() {
            if index % 2 == 1 {
                unescaped.push(quote);
            }
            unescaped.push_str(part);
        }
        writer.str(unescaped);
    }
}

/// Writes a number, or text if the field is not a number.
fn number(text: &str, writer: &mut Writer<'_>) {
    match Exact::new(text).filter(|_| is_json_number(text.as_bytes())) {
        Some(number) => writer.exact(&number),
        None => writer.str(text),
    }
}
