// The modules of one variant: protocols, and doubles for what they import.

pub use crate::doubles::{Batch, ByteBuffer, NodeBuffer};

pub mod batch {
    pub use crate::doubles::{Batch, Event};
    pub mod storage;
}

pub mod document {
    pub use crate::doubles::Node;
}

pub mod driver {
    pub mod call;
    pub mod slot;
}

pub mod engine {
    pub use crate::doubles::spin;

    pub mod account {
        pub mod token;
    }

    pub mod life {
        pub mod wakers;
        pub mod watch;
    }

    pub mod route {
        pub mod in_order;
    }
}

pub mod oneshot;

pub mod processor {
    pub use crate::doubles::Share;
}

pub mod value {
    pub use crate::doubles::Value;
}
