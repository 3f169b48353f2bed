//! What a schema is made of.

/// A message.
pub(crate) struct Message {
    pub(crate) name: &'static str,
    /// In the order in which they are written.
    pub(crate) fields: &'static [Field],
}

/// A field of a message.
pub(crate) struct Field {
    pub(crate) number: u32,
    /// In JSON.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_repeated: bool,
    /// One of several, of which a message has one. OTLP's messages have at most one such group.
    pub(crate) is_one_of: bool,
    /// Whether a default is written: it says something else than no value.
    pub(crate) keeps_default: bool,
}

impl Field {
    pub(crate) const fn new(number: u32, name: &'static str, kind: Kind) -> Self {
        let keeps_default = matches!(kind, Kind::Message(_));
        Self { number, name, kind, is_repeated: false, is_one_of: false, keeps_default }
    }

    pub(crate) const fn repeated(mut self) -> Self {
        self.is_repeated = true;
        self.keeps_default = true;
        self
    }

    pub(crate) const fn optional(mut self) -> Self {
        self.keeps_default = true;
        self
    }

    pub(crate) const fn one_of(mut self) -> Self {
        self.is_one_of = true;
        self.optional()
    }
}

/// The type of a field, by its names in protobuf where it has one there. An enumeration is an `Int32`.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Bool,
    Int32,
    Sint32,
    Uint32,
    Fixed32,
    Int64,
    Uint64,
    Fixed64,
    Sfixed64,
    Double,
    Text,
    /// Bytes that are an id: hexadecimal in JSON.
    Hex,
    /// Other bytes.
    Base64,
    Message(&'static Message),
}

/// How deep messages may be nested: protobuf's own limit.
pub(crate) const DEEPEST: usize = 100;

/// Messages by their fields: the number of each, its name and its kind, and what is to be known besides.
macro_rules! messages {
    ($($visibility:vis $constant:ident $message:literal {
        $($number:literal $name:literal $kind:ident $(($inner:ident))? $(=> $is:ident)?;)*
    })*) => {$(
        $visibility static $constant: Message = Message {
            name: $message,
            fields: &[$(Field::new($number, $name, Kind::$kind $((&$inner))?)$(.$is())?),*],
        };
    )*};
}
pub(crate) use messages;
