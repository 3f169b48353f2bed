//! The types of a schema.

/// A message type.
pub(crate) struct Message {
    pub(crate) name: &'static str,
    /// Fields in the order in which they are written.
    pub(crate) fields: &'static [Field],
}

/// A field of a message type.
pub(crate) struct Field {
    pub(crate) number: u32,
    /// Name in JSON.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_repeated: bool,
    /// `true` if the field belongs to a `oneof`: a message contains at most one of these fields. No message of OTLP has
    /// more than one `oneof`.
    pub(crate) is_one_of: bool,
    /// `true` if a default value is written, because an absent value has another meaning.
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

/// The type of a field, named after its protobuf type. An enumeration is an `Int32`.
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
    /// Bytes of an id, which are hexadecimal in JSON.
    Hex,
    /// Other bytes, which are base64 in JSON.
    Base64,
    Message(&'static Message),
}

/// Maximum nesting depth of messages: the default limit of protobuf libraries.
pub(crate) const DEEPEST: usize = 100;

/// Declares message types by their fields: the number, name and kind of each field, and optional properties.
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
