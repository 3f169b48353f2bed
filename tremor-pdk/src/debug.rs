//! `Debug` of what has little to show.

/// Shows a type by its name, or some of its fields with it.
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
