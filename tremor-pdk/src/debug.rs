//! `Debug` implementations that show only some fields of a type, or none.

/// Implements `Debug` with the name of the type and, if listed, some of its fields.
macro_rules! shows {
    ($($type:ident $(<$parameter:ident>)?),+) => {$(
        impl$(<$parameter>)? std::fmt::Debug for $type$(<$parameter>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    )+};
    ($($type:ident $(<$parameter:ident>)? { $($field:ident),+ })+) => {$(
        impl$(<$parameter>)? std::fmt::Debug for $type$(<$parameter>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($type));
                $(shown.field(stringify!($field), &self.$field);)+
                shown.finish_non_exhaustive()
            }
        }
    )+};
}
